//! A program: a kernel source with the options that make one kernel of it.

use sha2::{Digest, Sha256};
use std::fmt;

/// A portable kernel source, and the entry point in it.
#[derive(Debug)]
pub struct Source {
    /// Its name, and the kernel's.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// The macros that its options set, in order.
    pub options: &'static [&'static str],
}

/// Values of a source's options; those beyond its list are 0.
pub type Options = [u16; 4];

/// What every source may include.
pub const HEADERS: &[(&str, &str)] = &[
    ("pk.h", include_str!("shim/pk.h")),
    ("types.h", include_str!("shim/types.h")),
    ("reduce.h", include_str!("shim/reduce.h")),
    ("rotary.h", include_str!("shim/rotary.h")),
    ("gguf.h", include_str!("shim/gguf.h")),
    ("rounded.h", include_str!("shim/rounded.h")),
    ("mma.h", include_str!("shim/mma.h")),
    ("wgmma.h", include_str!("shim/wgmma.h")),
    ("attention.h", include_str!("shim/attention.h")),
    ("spans.h", include_str!("shim/spans.h")),
    ("rows.h", include_str!("shim/rows.h")),
];

/// A source with its options.
#[derive(Clone, Copy)]
pub struct Program {
    /// The source.
    pub source: &'static Source,
    /// The options.
    pub options: Options,
}

impl Program {
    /// The options as compiler flags, with the width of a warp.
    pub fn flags(&self, warp_width: u32) -> Vec<String> {
        let set = self.source.options.iter().zip(self.options);
        let mut flags: Vec<_> = set.map(|(name, value)| format!("-DPK_{name}={value}")).collect();
        flags.push(format!("-DPK_WARP={warp_width}"));
        flags.push("--std=c++17".into());
        flags
    }

    /// What the program is made of: source, headers and flags.
    pub fn digest(&self, warp_width: u32) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        add(self.source.text);
        HEADERS.iter().for_each(|(name, text)| {
            add(name);
            add(text);
        });
        self.flags(warp_width).iter().for_each(|f| add(f));
        hash.finalize().iter().take(12).map(|b| format!("{b:02x}")).collect()
    }

    /// A file name's part: source and option values.
    pub fn stem(&self) -> String {
        let values = self.options.iter().take(self.source.options.len());
        values.fold(self.source.name.to_string(), |stem, v| format!("{stem}.{v}"))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source.name)?;
        let set: Vec<_> =
            self.source.options.iter().zip(self.options).map(|(n, v)| format!("{n}={v}")).collect();
        if set.is_empty() { Ok(()) } else { write!(f, "[{}]", set.join(" ")) }
    }
}
