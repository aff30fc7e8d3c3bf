"""Golden values for every op, from PyTorch on the CPU (float64 inside) and, for GGUF blocks, from the `gguf`
package. Writes tests/golden/<op>.safetensors; run it with scripts/golden/make.
Tensors are named "<case>/<argument>"; a case's other arguments are JSON in the metadata."""
import json, pathlib, sys
import numpy as np
import torch
import torch.nn.functional as F
import gguf
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
torch.manual_seed(20261130)
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def normal(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(*shape) * scale).to(dtype)


class Op:
    def __init__(self, name):
        self.name, self.tensors, self.params = name, {}, {}

    def case(self, case, params=None, **tensors):
        self.params[case] = json.dumps(params or {})
        for key, value in tensors.items():
            self.tensors[f"{case}/{key}"] = value.contiguous().clone()

    def write(self):
        save_file(self.tensors, OUT / f"{self.name}.safetensors", metadata=self.params)
        print(self.name, len(self.params), "cases")


def layernorm():
    norm, fused = Op("layernorm.rmsnorm"), Op("layernorm.fused_add_rmsnorm")
    for name, dtype in DTYPES.items():
        x, r, w = normal(3, 45, dtype=dtype, scale=3), normal(3, 45, dtype=dtype), normal(45, dtype=dtype)
        y = F.rms_norm(x.double(), (45,), w.double(), 1e-5).to(dtype)
        norm.case(name, {"eps": 1e-5}, x=x, weight=w, expected=y)
        total = x.double() + r.double()
        y = F.rms_norm(total, (45,), w.double(), 1e-5).to(dtype)
        fused.case(name, {"eps": 1e-5}, x=x, residual=r, weight=w, expected=y, expected_residual=total.to(dtype))
    norm.write(), fused.write()


def activation():
    op = Op("activation.silu_and_mul")
    for name, dtype in DTYPES.items():
        x = normal(4, 74, dtype=dtype, scale=5)
        gate, up = x.double().chunk(2, -1)
        op.case(name, x=x, expected=(F.silu(gate) * up).to(dtype))
    op.write()


def embeddings():
    op = Op("embeddings.embedding")
    for name, dtype in DTYPES.items():
        table, ids = normal(11, 33, dtype=dtype), torch.tensor([3, 0, 10, 3], dtype=torch.int32)
        op.case(name, ids=ids, table=table, expected=F.embedding(ids.long(), table))
    op.write()
    op = Op("embeddings.rope")
    for name, dtype in DTYPES.items():
        for neox in (True, False):
            heads, kv, dim, rotary = 3, 2, 20, 16
            positions = torch.tensor([0, 5, 17], dtype=torch.int64)
            q, k = normal(3, heads, dim, dtype=dtype), normal(3, kv, dim, dtype=dtype)
            inv = 1.0 / 10000.0 ** (torch.arange(0, rotary, 2).double() / rotary)
            angle = torch.outer(torch.arange(20).double(), inv)
            cache = torch.cat([angle.cos(), angle.sin()], -1).float()

            def turn(x):
                out = x.double().clone()
                part = out[..., :rotary]
                pairs = part.unflatten(-1, (2, rotary // 2)).transpose(-1, -2) if neox else part.unflatten(-1, (-1, 2))
                c = torch.view_as_complex(pairs.contiguous())
                cos, sin = cache[positions].double().chunk(2, -1)
                c = torch.view_as_real(c * torch.complex(cos, sin)[:, None])
                out[..., :rotary] = (c.transpose(-1, -2) if neox else c).flatten(-2)
                return out.to(dtype)

            op.case(f"{name}-{'neox' if neox else 'interleaved'}", {"is_neox": neox}, positions=positions, q=q, k=k,
                    cos_sin_cache=cache, expected_q=turn(q), expected_k=turn(k))
    op.write()


def kvcache():
    op = Op("kvcache.reshape_and_cache")
    for name, dtype in DTYPES.items():
        key, value = normal(3, 2, 9, dtype=dtype), normal(3, 2, 9, dtype=dtype)
        slots = torch.tensor([7, -1, 2], dtype=torch.int64)
        caches = [normal(3, 4, 2, 9, dtype=dtype) for _ in range(2)]
        after = [c.clone() for c in caches]
        for cache, new in zip(after, (key, value)):
            flat = cache.view(12, 2, 9)
            flat[slots[slots >= 0]] = new[slots >= 0]
        op.case(name, key=key, value=value, key_cache=caches[0], value_cache=caches[1], slot_mapping=slots,
                expected_keys=after[0], expected_values=after[1])
    op.write()


def attention():
    decode, prefill = Op("attention.decode"), Op("attention.prefill")
    heads, kv, dim, block = 6, 2, 24, 8
    for name, dtype in DTYPES.items():
        caches = [normal(9, block, kv, dim, dtype=dtype) for _ in range(2)]
        table = torch.tensor([[4, 1, 7], [8, 2, 0]], dtype=torch.int32)
        lens = torch.tensor([19, 5], dtype=torch.int32)

        def one(q, sequence, causal):
            n, length = q.shape[0], int(lens[sequence])
            k, v = (c[table[sequence].long()].flatten(0, 1)[:length].double() for c in caches)
            k, v = (x.repeat_interleave(heads // kv, 1).transpose(0, 1) for x in (k, v))
            seen = torch.arange(length)[None] <= torch.arange(length - n, length)[:, None] if causal else None
            scores = q.double().transpose(0, 1) @ k.transpose(1, 2) / dim**0.5
            if seen is not None:
                scores = scores.masked_fill(~seen, -torch.inf)
            out = F.scaled_dot_product_attention(q.double().transpose(0, 1), k, v, attn_mask=seen)
            return out.transpose(0, 1).to(dtype), torch.logsumexp(scores, -1).transpose(0, 1).float()

        shared = dict(key_cache=caches[0], value_cache=caches[1], block_table=table, seq_lens=lens)
        q = normal(2, heads, dim, dtype=dtype)
        parts = [one(q[i : i + 1], i, False) for i in range(2)]
        decode.case(name, {"sm_scale": dim**-0.5}, q=q, expected=torch.cat([p[0] for p in parts]),
                    expected_lse=torch.cat([p[1] for p in parts]), **shared)
        q, offsets = normal(9, heads, dim, dtype=dtype), torch.tensor([0, 4, 9], dtype=torch.int32)
        parts = [one(q[:4], 0, True), one(q[4:], 1, True)]
        prefill.case(name, {"sm_scale": dim**-0.5, "is_causal": True}, q=q, qo_indptr=offsets,
                     expected=torch.cat([p[0] for p in parts]), expected_lse=torch.cat([p[1] for p in parts]), **shared)
    decode.write(), prefill.write()


def blocks(kind, rows, cols):
    """Raw blocks and their values: quantised from normal numbers where the package can, else random bytes."""
    try:
        raw = gguf.quants.quantize(normal(rows, cols, scale=0.1).numpy(), kind)
    except NotImplementedError:
        length, size = gguf.GGML_QUANT_SIZES[kind]
        raw = np.random.default_rng(int(kind)).integers(0, 256, (rows * cols // length, size), dtype=np.uint8)
        scale = np.frombuffer(np.float16(0.002).tobytes(), dtype=np.uint8)
        for at in {"Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}[kind.name]:
            raw[:, at : at + 2] = scale
        raw = raw.reshape(rows, -1)
    return torch.from_numpy(raw.copy()), torch.from_numpy(gguf.quants.dequantize(raw, kind).copy()).reshape(rows, cols)


def gemm_and_quantization():
    linear, quantised, plain = Op("gemm.linear"), Op("gemm.linear_gguf"), Op("quantization.dequantize_gguf")
    for name, dtype in DTYPES.items():
        x, w, b = normal(5, 67, dtype=dtype), normal(13, 67, dtype=dtype, scale=0.1), normal(13, dtype=dtype)
        linear.case(name, x=x, weight=w, bias=b, expected=F.linear(x.double(), w.double(), b.double()).to(dtype))
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"):
        raw, values = blocks(gguf.GGMLQuantizationType[name], 6, 512)
        x = normal(3, 512)
        shape = {"dtype": name.lower(), "shape": [6, 512]}
        plain.case(name.lower(), shape, weight=raw, expected=values.float())
        quantised.case(name.lower(), shape, x=x, weight=raw, expected=F.linear(x.double(), values.double()).float())
    linear.write(), quantised.write(), plain.write()


def uniform(seed, row):
    """SplitMix64, as the contract of sampling.sample defines it."""
    mask = (1 << 64) - 1
    z = ((seed ^ (row * 0xD1B54A32D192ED03 & mask)) + 0x9E3779B97F4A7C15) & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return ((z ^ z >> 31) >> 11) / (1 << 53)


def sampling():
    softmax, sample = Op("sampling.softmax"), Op("sampling.sample")
    for name, dtype in DTYPES.items():
        logits = normal(3, 101, dtype=dtype, scale=4)
        logits[1, 50:] = -torch.inf
        softmax.case(name, {"temperature": 0.7}, logits=logits, expected=torch.softmax(logits.double() / 0.7, -1).float())
        for i, (t, k, p, m) in enumerate([(0, 0, 1, 0), (1, 0, 1, 0), (0.8, 7, 1, 0), (1.2, 0, 0.8, 0), (0.9, 20, 0.9, 0.05)]):
            ids = []
            for row, x in enumerate(logits.double()):
                if t == 0:
                    ids.append(int(x.argmax()))
                    continue
                probs = torch.softmax(x / t, -1)
                order = torch.sort(probs, descending=True, stable=True)
                keep = torch.ones(101, dtype=torch.bool)
                keep[k or 101 :] = False
                top = torch.where(keep, order.values, 0)
                keep &= top.cumsum(-1) - top < p * top.sum()
                keep &= order.values >= m * order.values[0]
                kept = torch.zeros(101, dtype=torch.float64).scatter(0, order.indices, torch.where(keep, order.values, 0))
                ids.append(int((kept.cumsum(-1) <= uniform(i, row) * kept.sum()).sum()))
            params = {"temperature": t, "top_k": k, "top_p": p, "min_p": m, "seed": i}
            sample.case(f"{name}-{i}", params, logits=logits, expected=torch.tensor(ids, dtype=torch.int32))
    softmax.write(), sample.write()


OUT.mkdir(parents=True, exist_ok=True)
for part in (layernorm, activation, embeddings, kvcache, attention, gemm_and_quantization, sampling):
    part()
print("torch", torch.__version__, "gguf", getattr(gguf, "__version__", "?"), "python", sys.version.split()[0])
