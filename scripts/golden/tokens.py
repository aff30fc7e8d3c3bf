"""Greedy tokens of a Llama-family GGUF file from two independent engines:
  python scripts/golden/tokens.py MODEL.gguf > tests/fixtures/NAME.json
llama-cpp-python (built from its sdist) quantises activations to 8 bits; PyTorch on the dequantised weights, in
float32 with an uncompressed cache, does not. For each prompt: its ids, the ids that follow in each engine, by
how much the chosen logit leads the next at each step, and `noise`, the largest difference between the two
engines' leads on the same tokens: a lead of llama.cpp's below that decides nothing."""
import hashlib, json, sys
import gguf, llama_cpp, numpy as np, torch
import torch.nn.functional as F

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "<|im_start|>user\nExplain why the sky is blue in one sentence.<|im_end|>\n<|im_start|>assistant\n",
]
NEW = 64
reader = gguf.GGUFReader(sys.argv[1])
weights = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors}
key = lambda name: reader.fields[f"llama.{name}"].contents()
heads, kv_heads, eps = key("attention.head_count"), key("attention.head_count_kv"), key("attention.layer_norm_rms_epsilon")
dim, theta = key("rope.dimension_count"), key("rope.freq_base")


def forward(ids):
    """Logits after each token: a plain Llama, no cache."""
    n = len(ids)
    x = weights["token_embd.weight"][ids]
    angle = torch.outer(torch.arange(n).double(), theta ** -(torch.arange(0, dim, 2).double() / dim))
    turn = torch.complex(angle.cos().float(), angle.sin().float())[:, None]
    rope = lambda t: torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(-2)
    norm = lambda t, name: F.rms_norm(t, (t.shape[-1],), weights[f"{name}.weight"].flatten(), eps)
    for i in range(key("block_count")):
        w = lambda name: weights[f"blk.{i}.{name}.weight"]
        h = norm(x, f"blk.{i}.attn_norm")
        q, k, v = (F.linear(h, w(f"attn_{c}")).unflatten(-1, (-1, dim)) for c in "qkv")
        q, k = rope(q), rope(k)
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        o = F.scaled_dot_product_attention(*(t.transpose(0, 1) for t in (q, k, v)), is_causal=True)
        x = x + F.linear(o.transpose(0, 1).flatten(1), w("attn_output"))
        h = norm(x, f"blk.{i}.ffn_norm")
        x = x + F.linear(F.silu(F.linear(h, w("ffn_gate"))) * F.linear(h, w("ffn_up")), w("ffn_down"))
    return F.linear(norm(x, "output_norm"), weights.get("output.weight", weights["token_embd.weight"]))


def top(scores):
    order = np.argsort(-scores, kind="stable")[:2]
    return int(order[0]), float(scores[order[0]] - scores[order[1]]), order


llm = llama_cpp.Llama(sys.argv[1], n_ctx=256, logits_all=True, verbose=False, n_threads=2)
out = {"engines": [f"llama-cpp-python {llama_cpp.__version__}", f"torch {torch.__version__}"],
       "sha256": hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest(), "prompts": []}
for prompt in PROMPTS:
    ids = llm.tokenize(prompt.encode(), add_bos=llm.metadata.get("tokenizer.ggml.add_bos_token") == "true", special=True)
    llm.reset()
    feed, new, leads, pairs = ids, [], [], []
    for _ in range(NEW):
        llm.eval(feed)
        token, lead, pair = top(np.array(llm.scores[llm.n_tokens - 1], dtype=np.float64))
        new.append(token), leads.append(round(lead, 4)), pairs.append(pair)
        feed = [token]
    with torch.no_grad():
        same = forward(ids + new[:-1])[len(ids) - 1 :].double().numpy()
        noise = max(abs(s[a] - s[b] - lead) for s, (a, b), lead in zip(same, pairs, leads))
        exact, exact_leads = [], []
        for _ in range(NEW):
            token, lead, _ = top(forward(ids + exact)[-1].double().numpy())
            exact.append(token), exact_leads.append(round(lead, 4))
    out["prompts"].append({"text": prompt, "prompt_ids": ids, "ids": new, "leads": leads, "noise": round(noise, 4),
                           "exact_ids": exact, "exact_leads": exact_leads})
print(json.dumps(out, indent=1))
