"""Greedy tokens of a GGUF file (llama, qwen2, qwen3, gemma3) from two independent engines:
  python scripts/golden/tokens.py MODEL.gguf NEW [PROMPT..] > tests/fixtures/NAME.json
llama-cpp-python (built from its sdist) quantises activations to 8 bits where weights are quantised; PyTorch on the
dequantised weights, in float32 with an uncompressed cache, does not. For each prompt: its ids, the ids that follow
in each engine, by how much the chosen logit leads the next at each step, and `noise`, the largest difference
between the two engines' leads on the same tokens: a lead of llama.cpp's below that decides nothing."""
import hashlib, json, sys
import gguf, llama_cpp, numpy as np, torch
import torch.nn.functional as F

path, new_tokens, prompts = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
reader = gguf.GGUFReader(path)
weights = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors}
field = lambda name: reader.fields[name].contents() if name in reader.fields else None
arch = field("general.architecture")
key = lambda name, default=None: default if field(f"{arch}.{name}") is None else field(f"{arch}.{name}")
heads, eps = key("attention.head_count"), key("attention.layer_norm_rms_epsilon")
kv_heads, hidden = key("attention.head_count_kv", heads), key("embedding_length")
dim = key("attention.key_length", hidden // heads)
window = key("attention.sliding_window", 0)
gate = (lambda x: F.gelu(x, approximate="tanh")) if arch == "gemma3" else F.silu


def rope(x, theta):
    n, half = len(x), dim // 2
    angle = torch.outer(torch.arange(n).double(), theta ** -(torch.arange(0, dim, 2).double() / dim))
    cos, sin = (f(angle).float()[:, None] for f in (torch.cos, torch.sin))
    if arch == "llama":  # pairs of neighbours, as GGUF permutes the weights for
        u, v = x[..., 0::2], x[..., 1::2]
        return torch.stack([u * cos - v * sin, v * cos + u * sin], -1).flatten(-2)
    u, v = x[..., :half], x[..., half:]
    return torch.cat([u * cos - v * sin, v * cos + u * sin], -1)


def forward(ids):
    """Logits after each token, no cache."""
    norm = lambda t, name: F.rms_norm(t, (t.shape[-1],), weights[f"{name}.weight"].flatten(), eps)
    x, n = weights["token_embd.weight"][ids], len(ids)
    if arch == "gemma3":
        x = x * hidden**0.5
    own, tokens = torch.arange(n)[:, None], torch.arange(n)[None]
    for i in range(key("block_count")):
        at = f"blk.{i}"
        linear = lambda h, name: F.linear(h, weights[f"{at}.{name}.weight"], weights.get(f"{at}.{name}.bias"))
        local = window > 0 and (i + 1) % 6 != 0
        h = norm(x, f"{at}.attn_norm")
        q, k, v = (linear(h, f"attn_{c}").unflatten(-1, (-1, dim)) for c in "qkv")
        if f"{at}.attn_q_norm.weight" in weights:
            q, k = norm(q, f"{at}.attn_q_norm"), norm(k, f"{at}.attn_k_norm")
        theta = 10000.0 if local else key("rope.freq_base", 10000.0)
        q, k = rope(q, theta), rope(k, theta)
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        seen = tokens <= own
        if local:
            seen = seen & (tokens > own - window)
        o = F.scaled_dot_product_attention(*(t.transpose(0, 1) for t in (q, k, v)), attn_mask=seen)
        o = linear(o.transpose(0, 1).flatten(1), "attn_output")
        x = x + (norm(o, f"{at}.post_attention_norm") if arch == "gemma3" else o)
        h = norm(x, f"{at}.ffn_norm")
        o = linear(gate(linear(h, "ffn_gate")) * linear(h, "ffn_up"), "ffn_down")
        x = x + (norm(o, f"{at}.post_ffw_norm") if arch == "gemma3" else o)
    return F.linear(norm(x, "output_norm"), weights.get("output.weight", weights["token_embd.weight"]))


def top(scores):
    order = np.argsort(-scores, kind="stable")[:2]
    return int(order[0]), float(scores[order[0]] - scores[order[1]]), order


llm = llama_cpp.Llama(path, n_ctx=512, logits_all=True, verbose=False, n_threads=2)
out = {"engines": [f"llama-cpp-python {llama_cpp.__version__}", f"torch {torch.__version__}"],
       "sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(), "prompts": []}
for prompt in prompts:
    ids = llm.tokenize(prompt.encode(), add_bos=llm.metadata.get("tokenizer.ggml.add_bos_token") == "true", special=True)
    llm.reset()
    feed, new, leads, pairs = ids, [], [], []
    for _ in range(new_tokens):
        llm.eval(feed)
        token, lead, pair = top(np.array(llm.scores[llm.n_tokens - 1], dtype=np.float64))
        new.append(token), leads.append(round(lead, 4)), pairs.append(pair)
        feed = [token]
    with torch.no_grad():
        same = forward(ids + new[:-1])[len(ids) - 1 :].double().numpy()
        noise = max(abs(s[a] - s[b] - lead) for s, (a, b), lead in zip(same, pairs, leads))
        exact, exact_leads = [], []
        for _ in range(new_tokens):
            token, lead, _ = top(forward(ids + exact)[-1].double().numpy())
            exact.append(token), exact_leads.append(round(lead, 4))
    out["prompts"].append({"text": prompt, "prompt_ids": ids, "ids": new, "leads": leads, "noise": round(noise, 4),
                           "exact_ids": exact, "exact_leads": exact_leads})
print(json.dumps(out, indent=1))
