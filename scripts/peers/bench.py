"""Called by scripts/bench-peers: runs each engine in turns and prints medians and ratios."""
import json, os, statistics, subprocess, sys

model, threads, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
NEW = 128
# 512 tokens of prompt, so that prefill is worth timing: one text, repeated.
TEXT = "In the beginning there was a village by the sea, and in the village a baker who rose before the sun. " * 23

LLAMA = """
import json, sys, time, llama_cpp
llm = llama_cpp.Llama(sys.argv[1], n_ctx=1024, n_threads=int(sys.argv[4]), n_threads_batch=int(sys.argv[4]), verbose=False)
ids, new = json.loads(sys.argv[2]), int(sys.argv[3])
llm.eval(ids[:8]); llm.reset()
t = time.perf_counter(); llm.eval(ids); tokens = [llm.sample(temp=0.0)]; prefill = len(ids) / (time.perf_counter() - t)
t = time.perf_counter()
while len(tokens) < new:
    llm.eval([tokens[-1]]); tokens.append(llm.sample(temp=0.0))
print(json.dumps({"tokens": tokens, "prefill_tokens_per_s": prefill, "decode_tokens_per_s": (new - 1) / (time.perf_counter() - t)}))
"""


def run(*command, **env):
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **env})
    return json.loads(done.stdout)


def ours():
    return run("target/release/kernels", "generate", "--model", model, "--prompt", TEXT, "--max-tokens", str(NEW),
               "--ignore-eos", "--threads", threads, "--json")


# The ids of the prompt, for engines without our tokenizer.
ids = json.loads(subprocess.run(["target/release/kernels", "tokens", "--model", model, "--prompt", TEXT],
                                capture_output=True, text=True, check=True).stdout)
engines = {
    "kernel-registry": ours,
    "candle-transformers": lambda: run("target/peers/release/candle-peer", model, ",".join(map(str, ids)), str(NEW),
                                       RAYON_NUM_THREADS=threads),
}
try:
    import llama_cpp
    engines[f"llama-cpp-python {llama_cpp.__version__}"] = lambda: run(
        sys.executable, "-c", LLAMA, model, json.dumps(ids), str(NEW), threads)
except ImportError:
    print("llama-cpp-python is not installed: without it", file=sys.stderr)

rates = {name: [] for name in engines}
for _ in range(rounds):
    for name, engine in engines.items():
        result = engine()
        rates[name].append((result["prefill_tokens_per_s"], result["decode_tokens_per_s"]))
print(f"{os.path.basename(model)}, {len(ids)} prompt tokens, {NEW} new, {threads} threads, {rounds} rounds in turns, medians\n")
print("| engine | prefill tokens/s | decode tokens/s | ours / theirs |\n|---|---|---|---|")
medians = {name: tuple(statistics.median(r[i] for r in all) for i in (0, 1)) for name, all in rates.items()}
mine = medians["kernel-registry"]
for name, (prefill, decode) in medians.items():
    print(f"| {name} | {prefill:.1f} | {decode:.1f} | {mine[0] / prefill:.2f} / {mine[1] / decode:.2f} |")
