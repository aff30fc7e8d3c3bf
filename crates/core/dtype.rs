//! Element types, and the block formats of quantised weights.

use std::fmt;

/// The element type of a tensor. Quantised types are opaque blocks: a row of `n` elements is
/// `n / block_len` blocks of `block_bytes` bytes (GGUF layouts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum DType {
    F32,
    F16,
    BF16,
    I8,
    U8,
    I32,
    I64,
    U32,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 16] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::I64,
        DType::U32,
        DType::Q4_0,
        DType::Q4_1,
        DType::Q5_0,
        DType::Q5_1,
        DType::Q8_0,
        DType::Q4K,
        DType::Q5K,
        DType::Q6K,
    ];

    /// Elements in one block: 1 for plain types.
    pub const fn block_len(self) -> usize {
        match self {
            DType::Q4_0 | DType::Q4_1 | DType::Q5_0 | DType::Q5_1 | DType::Q8_0 => 32,
            DType::Q4K | DType::Q5K | DType::Q6K => 256,
            _ => 1,
        }
    }

    /// Bytes in one block: the element size for plain types.
    pub const fn block_bytes(self) -> usize {
        match self {
            DType::I64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::I8 | DType::U8 => 1,
            DType::Q4_0 => 18,
            DType::Q4_1 => 20,
            DType::Q5_0 => 22,
            DType::Q5_1 => 24,
            DType::Q8_0 => 34,
            DType::Q4K => 144,
            DType::Q5K => 176,
            DType::Q6K => 210,
        }
    }

    /// Whether elements come in opaque blocks.
    pub const fn is_quantised(self) -> bool {
        self.block_len() > 1
    }

    /// Alignment in bytes that a row of this type needs.
    pub const fn align(self) -> usize {
        if self.is_quantised() { 2 } else { self.block_bytes() }
    }

    /// Lower-case name: `bf16`, `q4_k`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U32 => "u32",
            DType::Q4_0 => "q4_0",
            DType::Q4_1 => "q4_1",
            DType::Q5_0 => "q5_0",
            DType::Q5_1 => "q5_1",
            DType::Q8_0 => "q8_0",
            DType::Q4K => "q4_k",
            DType::Q5K => "q5_k",
            DType::Q6K => "q6_k",
        }
    }

    /// The type called `name`, in either case.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of element types, for a kernel's declared formats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DTypeSet(u32);

impl DTypeSet {
    /// f32, f16 and bf16.
    pub const FLOAT: DTypeSet = DTypeSet::of(&[DType::F32, DType::F16, DType::BF16]);
    /// The quantised GGUF block formats.
    pub const GGUF: DTypeSet = DTypeSet::of(&[
        DType::Q4_0,
        DType::Q4_1,
        DType::Q5_0,
        DType::Q5_1,
        DType::Q8_0,
        DType::Q4K,
        DType::Q5K,
        DType::Q6K,
    ]);

    /// The set of the given types.
    pub const fn of(types: &[DType]) -> DTypeSet {
        let (mut bits, mut i) = (0, 0);
        while i < types.len() {
            bits |= 1 << types[i] as u32;
            i += 1;
        }
        DTypeSet(bits)
    }

    /// Both sets together.
    pub const fn union(self, other: DTypeSet) -> DTypeSet {
        DTypeSet(self.0 | other.0)
    }

    /// Whether `dtype` is in the set.
    pub const fn contains(self, dtype: DType) -> bool {
        self.0 & (1 << dtype as u32) != 0
    }

    /// Whether no type is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The types of the set, in declaration order.
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |d| self.contains(*d))
    }
}

impl fmt::Display for DTypeSet {
    /// `float` and `gguf` for the two common families, else names joined by `+`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == DTypeSet::FLOAT {
            return f.write_str("float");
        }
        if *self == DTypeSet::GGUF {
            return f.write_str("gguf");
        }
        if *self == DTypeSet::FLOAT.union(DTypeSet::GGUF) {
            return f.write_str("float+gguf");
        }
        for (i, d) in self.iter().enumerate() {
            write!(f, "{}{d}", if i > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for DTypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A plain Rust value that is a tensor element.
pub trait Element: Copy + Send + Sync + sealed::Sealed + 'static {
    /// Its tensor type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($t:ty = $d:ident),*) => { $(
        impl sealed::Sealed for $t {}
        impl Element for $t { const DTYPE: DType = DType::$d; }
    )* };
}
elements!(f32 = F32, half::f16 = F16, half::bf16 = BF16, i8 = I8, u8 = U8, i32 = I32, i64 = I64, u32 = U32);
