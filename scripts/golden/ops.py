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
    norm, fused, plain = Op("layernorm.rmsnorm"), Op("layernorm.fused_add_rmsnorm"), Op("layernorm.layernorm")
    gemma, gemma_fused = Op("layernorm.gemma_rmsnorm"), Op("layernorm.gemma_fused_add_rmsnorm")
    for name, dtype in DTYPES.items():
        x, r, w = normal(3, 45, dtype=dtype, scale=3), normal(3, 45, dtype=dtype), normal(45, dtype=dtype)
        total, bias = x.double() + r.double(), normal(45, dtype=dtype)
        for op, pair, offset in ((norm, fused, 0), (gemma, gemma_fused, 1)):
            rms = lambda x: F.rms_norm(x.double(), (45,), w.double() + offset, 1e-5).to(dtype)
            op.case(name, {"eps": 1e-5}, x=x, weight=w, expected=rms(x))
            pair.case(name, {"eps": 1e-5}, x=x, residual=r, weight=w, expected=rms(total),
                      expected_residual=total.to(dtype))
        y = F.layer_norm(x.double(), (45,), w.double(), bias.double(), 1e-5).to(dtype)
        plain.case(name, {"eps": 1e-5}, x=x, weight=w, bias=bias, expected=y)
    for op in (norm, fused, gemma, gemma_fused, plain):
        op.write()
    op = Op("layernorm.qk_norm_rope")
    for name, dtype in DTYPES.items():
        for neox in (True, False):
            q, k = normal(3, 4, 20, dtype=dtype, scale=2), normal(3, 2, 20, dtype=dtype)
            weights, (positions, cache) = [normal(20, dtype=dtype) for _ in range(2)], angles(16)
            expected = [turn(F.rms_norm(x.double(), (20,), w.double(), 1e-6), positions, cache, neox).to(dtype)
                        for x, w in zip((q, k), weights)]
            op.case(f"{name}-{'neox' if neox else 'interleaved'}", {"is_neox": neox, "eps": 1e-6}, q=q, k=k,
                    q_weight=weights[0], k_weight=weights[1], positions=positions, cos_sin_cache=cache,
                    expected_q=expected[0], expected_k=expected[1])
    op.write()


def activation():
    gated = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    plain = {"gelu_quick": lambda x: x * torch.sigmoid(1.702 * x), "relu2": lambda x: F.relu(x) ** 2}
    for kind, f in gated.items():
        op = Op(f"activation.{kind}_and_mul")
        for name, dtype in DTYPES.items():
            x = normal(4, 74, dtype=dtype, scale=5)
            gate, up = x.double().chunk(2, -1)
            op.case(name, x=x, expected=(f(gate) * up).to(dtype))
        op.write()
    for kind, f in plain.items():
        op = Op(f"activation.{kind}")
        for name, dtype in DTYPES.items():
            x = normal(4, 37, dtype=dtype, scale=5)
            op.case(name, x=x, expected=f(x.double()).to(dtype))
        op.write()
    op = Op("activation.softcap")
    for name, dtype in DTYPES.items():
        x = normal(4, 37, dtype=dtype, scale=40)
        op.case(name, {"cap": 30.0}, x=x, expected=(30 * torch.tanh(x.double() / 30)).to(dtype))
    op.write()


def elementwise():
    for kind, f in {"add": torch.add, "mul": torch.mul}.items():
        op = Op(f"elementwise.{kind}")
        for name, dtype in DTYPES.items():
            a, b = normal(4, 3, 11, dtype=dtype), normal(4, 3, 11, dtype=dtype)
            op.case(name, a=a, b=b, expected=f(a.double(), b.double()).to(dtype))
        op.write()
    scale, copy, cast = Op("elementwise.scale"), Op("elementwise.copy"), Op("elementwise.cast")
    for name, dtype in DTYPES.items():
        x = normal(5, 13, dtype=dtype)
        scale.case(name, {"factor": 25.298221}, x=x, expected=(x.double() * float(np.float32(25.298221))).to(dtype))
        copy.case(name, x=x, expected=x.T)
        for to, target in (DTYPES | {"f8_e4m3": torch.float8_e4m3fn}).items():
            x = normal(3, 50, dtype=dtype, scale=100)
            # PyTorch's own cast to f8 turns into NaN what the kernels saturate.
            wide = x.clamp(-448, 448) if to == "f8_e4m3" else x
            cast.case(f"{name}-{to}", {"dtype": to}, x=x, expected=wide.to(target))
    for op in (scale, copy, cast):
        op.write()


def angles(rotary):
    """Positions of three tokens, and the cos-sin cache of 20."""
    inv = 1.0 / 10000.0 ** (torch.arange(0, rotary, 2).double() / rotary)
    angle = torch.outer(torch.arange(20).double(), inv)
    return torch.tensor([0, 5, 17], dtype=torch.int64), torch.cat([angle.cos(), angle.sin()], -1).float()


def turn(x, positions, cache, neox):
    """Rotary embedding by complex multiplication, in float64."""
    out, rotary = x.double().clone(), cache.shape[1]
    part = out[..., :rotary]
    pairs = part.unflatten(-1, (2, rotary // 2)).transpose(-1, -2) if neox else part.unflatten(-1, (-1, 2))
    c = torch.view_as_complex(pairs.contiguous())
    cos, sin = cache[positions].double().chunk(2, -1)
    c = torch.view_as_real(c * torch.complex(cos, sin)[:, None])
    out[..., :rotary] = (c.transpose(-1, -2) if neox else c).flatten(-2)
    return out


def embeddings():
    op = Op("embeddings.embedding")
    for name, dtype in DTYPES.items():
        table, ids = normal(11, 33, dtype=dtype), torch.tensor([3, 0, 10, 3], dtype=torch.int32)
        op.case(name, ids=ids, table=table, expected=F.embedding(ids.long(), table))
    op.write()
    op = Op("embeddings.rope")
    for name, dtype in DTYPES.items():
        for neox in (True, False):
            q, k, (positions, cache) = normal(3, 3, 20, dtype=dtype), normal(3, 2, 20, dtype=dtype), angles(16)
            op.case(f"{name}-{'neox' if neox else 'interleaved'}", {"is_neox": neox}, positions=positions, q=q, k=k,
                    cos_sin_cache=cache, expected_q=turn(q, positions, cache, neox).to(dtype),
                    expected_k=turn(k, positions, cache, neox).to(dtype))
    op.write()


def stored(x, kind, scale):
    """x / scale in float32, as a cache of that type holds it."""
    x = x.float() / scale
    if kind == torch.int8:
        return x.round().clamp(-128, 127).to(kind)  # torch rounds half to even
    return (x.clamp(-448, 448) if kind == torch.float8_e4m3fn else x).to(kind)


def empty(kind, *shape):
    """A cache with something in it."""
    x = normal(*shape)
    return (x * 40).round().to(kind) if kind == torch.int8 else x.to(kind)


CACHES = DTYPES | {"i8": torch.int8, "f8_e4m3": torch.float8_e4m3fn}


def kvcache():
    op, fused = Op("kvcache.reshape_and_cache"), Op("kvcache.rope_and_cache")
    slots = torch.tensor([7, -1, 2], dtype=torch.int64)
    for name, dtype in DTYPES.items():
        for cache_name, kind in CACHES.items():
            scales = {"k_scale": 0.02, "v_scale": 0.05} if kind in (torch.int8, torch.float8_e4m3fn) else {"k_scale": 1.0, "v_scale": 1.0}
            key, value = normal(3, 2, 20, dtype=dtype), normal(3, 2, 20, dtype=dtype)
            caches = [empty(kind, 3, 4, 2, 20) for _ in range(2)]

            def after(cache, new, scale):
                cache = cache.clone()
                flat, keep = cache.view(12, 2, 20), slots >= 0
                # Through bytes: not every type can be indexed.
                flat.view(torch.uint8)[slots[keep]] = stored(new, kind, np.float32(scale)).view(torch.uint8)[keep]
                return cache

            op.case(f"{name}-{cache_name}", scales, key=key, value=value, key_cache=caches[0], value_cache=caches[1],
                    slot_mapping=slots, expected_keys=after(caches[0], key, scales["k_scale"]),
                    expected_values=after(caches[1], value, scales["v_scale"]))
            if cache_name == name or cache_name == "f16":
                q, (positions, angle) = normal(3, 4, 20, dtype=dtype), angles(16)
                turned = turn(key, positions, angle, True).to(dtype)
                fused.case(f"{name}-{cache_name}", {"is_neox": True} | scales, positions=positions, q=q, k=key, value=value,
                           cos_sin_cache=angle, key_cache=caches[0], value_cache=caches[1], slot_mapping=slots,
                           expected_q=turn(q, positions, angle, True).to(dtype), expected_k=turned,
                           expected_keys=after(caches[0], turned, 1.0), expected_values=after(caches[1], value, 1.0))
    op.write(), fused.write()


def attention():
    decode, prefill = Op("attention.decode"), Op("attention.prefill")
    heads, kv, dim, block = 6, 2, 24, 8
    plain = {"logit_cap": 0.0, "window": 0, "k_scale": 1.0, "v_scale": 1.0}
    kinds = {"": {}, "-cap": {"logit_cap": 2.0}, "-window": {"window": 4}, "-sinks": {"sinks": True},
             "-i8": {"cache": "i8", "k_scale": 0.03, "v_scale": 0.02}, "-f8": {"cache": "f8_e4m3", "k_scale": 0.5, "v_scale": 2.0},
             "-all": {"logit_cap": 3.0, "window": 9, "sinks": True}}
    for name, dtype in DTYPES.items():
        for suffix, kind in kinds.items():
            params = plain | {"sm_scale": dim**-0.5} | kind
            cache_type = CACHES[params.pop("cache", name)]
            caches = [empty(cache_type, 9, block, kv, dim) for _ in range(2)]
            table = torch.tensor([[4, 1, 7], [8, 2, 0]], dtype=torch.int32)
            lens = torch.tensor([19, 5], dtype=torch.int32)
            sinks = {"sinks": normal(heads)} if params.pop("sinks", False) else {}

            def one(q, sequence, causal, mask=None):
                """Softmax attention spelt out, in float64."""
                n, length = q.shape[0], int(lens[sequence])
                k, v = (c.double()[table[sequence].long()].flatten(0, 1)[:length] * float(np.float32(params[s]))
                        for c, s in zip(caches, ("k_scale", "v_scale")))
                k, v = (x.repeat_interleave(heads // kv, 1).transpose(0, 1) for x in (k, v))
                scores = q.double().transpose(0, 1) @ k.transpose(1, 2) * float(np.float32(params["sm_scale"]))
                if params["logit_cap"]:
                    scores = params["logit_cap"] * torch.tanh(scores / params["logit_cap"])
                own, tokens = torch.arange(length - n, length)[:, None], torch.arange(length)[None]
                seen = tokens <= own if causal else torch.ones(n, length, dtype=torch.bool)
                if params["window"]:
                    seen = seen & (tokens > own - params["window"])
                if mask is not None:
                    seen = seen & mask
                scores = scores.masked_fill(~seen, -torch.inf)
                if sinks:
                    scores = torch.cat([scores, sinks["sinks"].double()[:, None, None].expand(-1, n, 1)], -1)
                    v = torch.cat([v, torch.zeros(heads, 1, dim, dtype=torch.float64)], 1)
                out, lse = torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)
                return out.transpose(0, 1).to(dtype), lse.transpose(0, 1).float()

            shared = dict(key_cache=caches[0], value_cache=caches[1], block_table=table, seq_lens=lens) | sinks
            q = normal(2, heads, dim, dtype=dtype)
            parts = [one(q[i : i + 1], i, False) for i in range(2)]
            decode.case(name + suffix, params, q=q, expected=torch.cat([p[0] for p in parts]),
                        expected_lse=torch.cat([p[1] for p in parts]), **shared)
            q, offsets = normal(9, heads, dim, dtype=dtype), torch.tensor([0, 4, 9], dtype=torch.int32)
            masks = [torch.rand(4, 19) < 0.7, torch.rand(5, 5) < 0.7]
            for m in masks:
                m[:, 0] = True  # a row that sees nothing is the contract's own matter
            for masked in (False, True):
                use = masks if masked and not params["window"] else [None, None]
                parts = [one(q[:4], 0, True, use[0]), one(q[4:], 1, True, use[1])]
                extra = {} if use[0] is None else {
                    "mask": torch.cat([m.flatten() for m in use]).to(torch.uint8),
                    "mask_indptr": torch.tensor([0, 76], dtype=torch.int32)}
                prefill.case(name + suffix + ("-masked" if extra else ""), params | {"is_causal": True}, q=q, qo_indptr=offsets,
                             expected=torch.cat([p[0] for p in parts]), expected_lse=torch.cat([p[1] for p in parts]),
                             **shared, **extra)
    decode.write(), prefill.write()
    op = Op("attention.merge_state")
    for name, dtype in DTYPES.items():
        out, lse = [normal(3, 4, 17, dtype=dtype) for _ in range(2)], [normal(3, 4, scale=5) for _ in range(2)]
        lse[0][1, 2] = -torch.inf
        lse[0][0, 0] = lse[1][0, 0] = -torch.inf
        weights = torch.softmax(torch.stack(lse).double(), 0).nan_to_num(0)[..., None]
        op.case(name, out_a=out[0], lse_a=lse[0], out_b=out[1], lse_b=lse[1],
                expected=(weights * torch.stack(out).double()).sum(0).to(dtype),
                expected_lse=torch.logsumexp(torch.stack(lse).double(), 0).float())
    op.write()


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


LIMITS = {"i8": (torch.int8, 127.0), "f8_e4m3": (torch.float8_e4m3fn, 448.0)}


def quantise(x, kind):
    """Rows as 8-bit values with a scale each, in the precision of x."""
    target, limit = LIMITS[kind]
    largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-10)
    return stored((x * (limit / largest)).float(), target, np.float32(1)), (largest / limit).float().squeeze(-1)


def eight_bits():
    """Quantisation at run time, and the products of what it gives; the formulas are float32's."""
    by_row = {"i8": Op("quantization.per_token_quant_int8"), "f8_e4m3": Op("quantization.per_token_quant_fp8")}
    products = {"i8": Op("gemm.int8_scaled_mm"), "f8_e4m3": Op("gemm.fp8_scaled_mm")}
    grouped = Op("quantization.per_token_group_quant")

    for name, dtype in DTYPES.items():
        for kind in LIMITS:
            x = normal(4, 96, dtype=dtype, scale=3)
            q, scales = quantise(x.float(), kind)
            by_row[kind].case(name, x=x, expected=q, expected_scales=scales)
            q, scales = quantise(x.float().unflatten(-1, (3, 32)), kind)
            grouped.case(f"{name}-{kind}", {"group_size": 32}, x=x, expected=q.flatten(1), expected_scales=scales)
            (a, scales_a), (b, scales_b), bias = quantise(normal(5, 67), kind), quantise(normal(13, 67), kind), normal(13, dtype=dtype)
            y = F.linear(a.double(), b.double()) * scales_a.double()[:, None] * scales_b.double() + bias.double()
            products[kind].case(name, a=a, b=b, scales_a=scales_a, scales_b=scales_b, bias=bias, expected=y.to(dtype))
    for op in (*by_row.values(), grouped, *products.values()):
        op.write()


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
    top_k, top_p = Op("sampling.top_k_renorm"), Op("sampling.top_p_renorm")
    for case in range(3):
        probs = torch.softmax(normal(4, 101, scale=2 + case), -1)
        k, p = torch.tensor([1, 7, 100, 0], dtype=torch.int32), torch.tensor([0.1, 0.5, 0.95, 1.0])
        order = torch.sort(probs.double(), dim=-1, descending=True, stable=True)

        def renormalised(keep):
            kept = torch.zeros_like(order.values).scatter(-1, order.indices, torch.where(keep, order.values, 0))
            return (kept / kept.sum(-1, keepdim=True)).float()

        ranks = torch.arange(101)[None]
        top_k.case(str(case), probs=probs, k=k, expected=renormalised(ranks < torch.where(k == 0, 101, k)[:, None]))
        total = order.values.sum(-1, keepdim=True)
        before = order.values.cumsum(-1) - order.values
        top_p.case(str(case), probs=probs, p=p, expected=renormalised((before < p.double()[:, None] * total) | (p[:, None] >= 1)))
    top_k.write(), top_p.write()
    mask_op, penalties = Op("sampling.apply_mask"), Op("sampling.penalties")
    for name, dtype in DTYPES.items():
        logits, allowed = normal(3, 70, dtype=dtype), torch.rand(3, 96) < 0.5
        words = (allowed.reshape(3, 3, 32).long() << torch.arange(32)).sum(-1)
        words = torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)
        mask_op.case(name, logits=logits, mask=words, expected=logits.masked_fill(~allowed[:, :70], -torch.inf))
        logits, prompt, output = normal(3, 40, dtype=dtype, scale=3), torch.randint(-1, 40, (3, 9)), torch.randint(-1, 40, (3, 60))
        repetition, frequency, presence = torch.tensor([1.3, 1.0, 0.8]), torch.tensor([0.2, 0.0, -0.1]), torch.tensor([0.5, 0.3, 0.0])
        count = torch.stack([(output == t).sum(-1) for t in range(40)], -1).double()
        there = (count > 0) | torch.stack([(prompt == t).any(-1) for t in range(40)], -1)
        x, r = logits.double(), repetition.double()[:, None]
        x = torch.where(there, torch.where(x > 0, x / r, x * r), x)
        x = x - count * frequency.double()[:, None] - (count > 0) * presence.double()[:, None]
        penalties.case(name, logits=logits, prompt_tokens=prompt, output_tokens=output, repetition=repetition,
                       frequency=frequency, presence=presence, expected=x.to(dtype))
    mask_op.write(), penalties.write()


OUT.mkdir(parents=True, exist_ok=True)
def fused():
    """Ops that do several others in one pass. They have their own seed, so that the others' values stay."""
    torch.manual_seed(20261201)
    norm, gated, stored_op = Op("layernorm.add_rmsnorm_quant"), Op("activation.silu_and_mul_quant"), Op("kvcache.qk_norm_rope_store")

    for name, dtype in DTYPES.items():
        for kind in LIMITS:
            x, r, w = normal(4, 45, dtype=dtype, scale=3), normal(4, 45, dtype=dtype), normal(45, dtype=dtype)
            total = x.double() + r.double()
            q, scales = quantise(F.rms_norm(total, (45,), w.double(), 1e-5), kind)
            norm.case(f"{name}-{kind}", {"eps": 1e-5}, x=x, residual=r, weight=w, expected=q, expected_scales=scales,
                      expected_residual=total.to(dtype))
            x = normal(4, 74, dtype=dtype, scale=5)
            gate, up = x.double().chunk(2, -1)
            q, scales = quantise(F.silu(gate) * up, kind)
            gated.case(f"{name}-{kind}", x=x, expected=q, expected_scales=scales)
        q, k, value = normal(3, 4, 20, dtype=dtype, scale=2), normal(3, 2, 20, dtype=dtype), normal(3, 2, 20, dtype=dtype)
        weights, (positions, angle) = [normal(20, dtype=dtype) for _ in range(2)], angles(16)
        after = [turn(F.rms_norm(x.double(), (20,), w.double(), 1e-6), positions, angle, True).to(dtype)
                 for x, w in zip((q, k), weights)]
        slots, caches = torch.tensor([7, -1, 2], dtype=torch.int64), [empty(dtype, 3, 4, 2, 20) for _ in range(2)]
        full = [cache.clone() for cache in caches]
        for cache, new in zip(full, (after[1], value)):
            cache.view(12, 2, 20)[slots[slots >= 0]] = new[slots >= 0]
        stored_op.case(name, {"is_neox": True, "eps": 1e-6}, positions=positions, q=q, k=k, value=value,
                       q_weight=weights[0], k_weight=weights[1], cos_sin_cache=angle, key_cache=caches[0],
                       value_cache=caches[1], slot_mapping=slots, expected_q=after[0], expected_k=after[1],
                       expected_keys=full[0], expected_values=full[1])
    norm.write(), gated.write(), stored_op.write()


for part in (layernorm, activation, elementwise, embeddings, kvcache, attention, gemm_and_quantization, eight_bits, sampling, fused):
    part()
print("torch", torch.__version__, "gguf", getattr(gguf, "__version__", "?"), "python", sys.version.split()[0])
