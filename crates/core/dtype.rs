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
    /// 8-bit float of the OCP standard (e4m3fn): largest 448, no infinities. Stores saturate.
    F8E4M3,
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
    pub const ALL: [DType; 17] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::I64,
        DType::U32,
        DType::F8E4M3,
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
            DType::I8 | DType::U8 | DType::F8E4M3 => 1,
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
            DType::F8E4M3 => "f8_e4m3",
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
    /// i8 and f8_e4m3: 8-bit values that go with a scale.
    pub const EIGHT_BIT: DTypeSet = DTypeSet::of(&[DType::I8, DType::F8E4M3]);
    /// Every type that is not in blocks.
    pub const PLAIN: DTypeSet = DTypeSet::FLOAT.union(DTypeSet::EIGHT_BIT).union(DTypeSet::of(&[
        DType::U8,
        DType::I32,
        DType::I64,
        DType::U32,
    ]));
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

    /// One bit a type.
    pub(crate) const fn bits(self) -> u32 {
        self.0
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
    /// `float`, `gguf` and `8bit` for the families that are all there, and names for the rest, joined by `+`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = [(DTypeSet::FLOAT, "float"), (DTypeSet::GGUF, "gguf"), (DTypeSet::EIGHT_BIT, "8bit")];
        let (mut rest, mut shown) = (*self, 0);
        let mut show = |name: &str| {
            shown += 1;
            write!(f, "{}{name}", if shown > 1 { "+" } else { "" })
        };
        for (family, name) in families {
            if rest.0 & family.0 == family.0 {
                rest = DTypeSet(rest.0 & !family.0);
                show(name)?;
            }
        }
        rest.iter().try_for_each(|d| show(d.name()))
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
elements!(
    f32 = F32,
    half::f16 = F16,
    half::bf16 = BF16,
    i8 = I8,
    u8 = U8,
    i32 = I32,
    i64 = I64,
    u32 = U32,
    float8::F8E4M3 = F8E4M3
);
