//! GGUF files and the model families that prove kernel-registry on real weights
