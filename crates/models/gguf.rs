//! Reading GGUF. Our own: the readers on the registry either trust the lengths in the file or keep the
//! whole of it in memory; this one checks each length against the file's size before it allocates.

use crate::error::{ModelError, Result};
use kernels_core::{DType, Device, Tensor};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// A metadata value. Arrays are skipped: only the tokenizer has use for them, and it reads them itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any integer.
    Int(i128),
    /// Any float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array of so many elements.
    Array(u64),
}

#[derive(Clone, Debug)]
struct Info {
    shape: Vec<usize>,
    dtype: Result<DType, u32>,
    offset: u64,
}

impl Info {
    /// Its size, where the type is known and the shape possible.
    fn bytes(&self) -> Option<u64> {
        let dtype = self.dtype.ok()?;
        let elements = self.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
        (elements / dtype.block_len()).checked_mul(dtype.block_bytes()).map(|b| b as u64)
    }
}

/// An open GGUF file: metadata and the list of tensors; weights are read when they are asked for.
pub struct Gguf<R> {
    reader: R,
    len: u64,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Info>,
    data: u64,
}

impl Gguf<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// It is not there, or not a sound GGUF file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let fail = |source| ModelError::Open { path: path.into(), source };
        let file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.is_dir() {
            return Err(fail(std::io::Error::other("it is a folder")));
        }
        Gguf::read(BufReader::new(file))
    }
}

impl<R: Read + Seek> Gguf<R> {
    /// Reads metadata and the list of tensors.
    ///
    /// # Errors
    /// Not a sound GGUF file.
    pub fn read(mut reader: R) -> Result<Self> {
        let len = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        let mut header = Header { reader: &mut reader, at: 0, len };
        let magic: [u8; 4] = header
            .array("the file's signature")
            .map_err(|_| ModelError::NotGguf { detail: format!("it has {len} bytes") })?;
        if &magic != b"GGUF" {
            return Err(ModelError::NotGguf {
                detail: format!("it begins with {:?}", String::from_utf8_lossy(&magic)),
            });
        }
        let version = header.u32("the version")?;
        if !(2..=3).contains(&version) {
            return Err(ModelError::NotGguf { detail: format!("its version is {version}") });
        }
        let tensor_count = header.count("the number of tensors", 24)?;
        let key_count = header.count("the number of keys", 13)?;
        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let key = header.string("a metadata key")?;
            let kind = header.u32(&key)?;
            let value = header.value(&key, kind, 0)?;
            metadata.insert(key, value);
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let (name, info) = header.tensor()?;
            if tensors.insert(name.clone(), info).is_some() {
                return Err(ModelError::Damaged { detail: format!("tensor \"{name}\" is listed twice") });
            }
        }
        let alignment = match metadata.get("general.alignment") {
            Some(Value::Int(a)) if *a > 0 && *a <= 1 << 20 && (*a as u64).is_power_of_two() => *a as u64,
            None => 32,
            Some(other) => return Err(ModelError::Damaged { detail: format!("its alignment is {other:?}") }),
        };
        // Tensors that share bytes would let a small file ask for much memory.
        let mut places: Vec<_> =
            tensors.iter().filter_map(|(n, t)| Some((t.offset, t.bytes()?, n))).collect();
        places.sort_unstable();
        for pair in places.windows(2) {
            if pair[0].0.saturating_add(pair[0].1) > pair[1].0 && pair[1].1 > 0 {
                let detail = format!("tensors \"{}\" and \"{}\" share bytes", pair[0].2, pair[1].2);
                return Err(ModelError::Damaged { detail });
            }
        }
        let data = header.at.next_multiple_of(alignment);
        Ok(Gguf { reader, len, metadata, tensors, data })
    }

    /// A metadata value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Whether readers that keep every array element as a value of its own, as tokenizers do, stay within twice
    /// the file's size.
    pub(crate) fn arrays_are_small(&self) -> bool {
        /// The size of such a value.
        const VALUE: u64 = 40;
        let elements = self.metadata.values().map(|v| if let Value::Array(n) = v { *n } else { 0 });
        elements.fold(0u64, u64::saturating_add).saturating_mul(VALUE)
            <= self.len.saturating_mul(2) - self.len / 2
    }

    /// A metadata value that must be there, as text.
    ///
    /// # Errors
    /// It is missing, or not text.
    pub fn text(&self, key: &str) -> Result<&str> {
        match self.metadata.get(key) {
            Some(Value::Text(text)) => Ok(text),
            other => Err(key_error(key, other)),
        }
    }

    /// A metadata value that must be there, as a size from 1 to `most`.
    ///
    /// # Errors
    /// It is missing, or not such a size.
    pub fn size(&self, key: &str, most: usize) -> Result<usize> {
        match self.metadata.get(key) {
            Some(Value::Int(v)) if *v >= 1 && *v <= most as i128 => Ok(*v as usize),
            Some(Value::Int(v)) => {
                Err(ModelError::Key { key: key.into(), detail: format!("{v} is not between 1 and {most}") })
            }
            other => Err(key_error(key, other)),
        }
    }

    /// A metadata value that must be there, as a positive number.
    ///
    /// # Errors
    /// It is missing, or not such a number.
    pub fn number(&self, key: &str) -> Result<f64> {
        match self.metadata.get(key) {
            Some(Value::Float(v)) if *v > 0.0 && v.is_finite() => Ok(*v),
            Some(Value::Float(v)) => {
                Err(ModelError::Key { key: key.into(), detail: format!("{v} is not above 0") })
            }
            other => Err(key_error(key, other)),
        }
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A tensor's shape, outermost dimension first.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|t| t.shape.as_slice())
    }

    /// Reads a tensor onto a device; it must have this shape.
    ///
    /// # Errors
    /// It is missing, of another shape, of a type without kernels, or not all there.
    pub fn tensor(&mut self, name: &str, shape: &[usize], device: Device) -> Result<Tensor> {
        let info = self.tensors.get(name).ok_or_else(|| ModelError::MissingTensor {
            name: name.into(),
            architecture: self.text("general.architecture").unwrap_or("?").into(),
        })?;
        if info.shape != shape {
            return Err(ModelError::TensorShape {
                name: name.into(),
                have: info.shape.clone(),
                need: shape.into(),
            });
        }
        let dtype = info
            .dtype
            .as_ref()
            .map_err(|id| ModelError::UnknownTensorType { tensor: name.into(), type_id: *id })?;
        let damaged = |detail: String| ModelError::Damaged { detail: format!("tensor \"{name}\" {detail}") };
        let (block, cols) = (dtype.block_len(), shape.last().copied().unwrap_or(1));
        if cols % block != 0 {
            return Err(damaged(format!(
                "has rows of {cols}, which are not whole {dtype} blocks of {block}"
            )));
        }
        let bytes = info.bytes().ok_or_else(|| damaged(format!("has an impossible shape {shape:?}")))?;
        let at = self.data.checked_add(info.offset).ok_or_else(|| damaged("lies outside any file".into()))?;
        if at.checked_add(bytes).is_none_or(|end| end > self.len) {
            return Err(ModelError::Truncated {
                what: format!("tensor \"{name}\""),
                at,
                need: bytes,
                have: self.len,
            });
        }
        // Checked against the file's size, so this is no larger than the file.
        let mut data = vec![0; bytes as usize];
        self.reader.seek(SeekFrom::Start(at))?;
        self.reader.read_exact(&mut data)?;
        Ok(Tensor::from_bytes(&data, *dtype, shape, device)?)
    }

    /// The file's bytes from the start, for a tokenizer that reads the vocabulary itself.
    pub(crate) fn rewound(&mut self) -> Result<&mut R> {
        self.reader.seek(SeekFrom::Start(0))?;
        Ok(&mut self.reader)
    }
}

/// The beginning of a name that comes from the file.
pub(crate) fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

fn key_error(key: &str, have: Option<&Value>) -> ModelError {
    let detail = have.map_or_else(|| "it is missing".into(), |v| format!("it is {v:?}"));
    ModelError::Key { key: key.into(), detail }
}

struct Header<'r, R> {
    reader: &'r mut R,
    at: u64,
    len: u64,
}

impl<R: Read> Header<'_, R> {
    fn need(&self, what: &str, need: u64) -> Result<()> {
        match self.len - self.at < need {
            true => Err(ModelError::Truncated { what: what.into(), at: self.at, need, have: self.len }),
            false => Ok(()),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        self.need(what, N as u64)?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A number of things of which each takes at least `least` bytes of the rest of the file.
    fn count(&mut self, what: &str, least: u64) -> Result<u64> {
        let count = self.u64(what)?;
        self.need(&format!("{what} ({count})"), count.saturating_mul(least))?;
        Ok(count)
    }

    fn string(&mut self, what: &str) -> Result<String> {
        let len = self.count(what, 1)?;
        let mut bytes = vec![0; len as usize];
        self.reader.read_exact(&mut bytes)?;
        self.at += len;
        // The format's strings are UTF-8. Long ones that are not would come of a damaged length, and swell.
        String::from_utf8(bytes)
            .map_err(|_| ModelError::Damaged { detail: format!("{} is not text", shortened(what)) })
    }

    fn skip(&mut self, what: &str, bytes: u64) -> Result<()> {
        self.need(what, bytes)?;
        std::io::copy(&mut self.reader.by_ref().take(bytes), &mut std::io::sink())?;
        self.at += bytes;
        Ok(())
    }

    fn value(&mut self, key: &str, kind: u32, depth: u32) -> Result<Value> {
        Ok(match kind {
            0 => Value::Int(u8::from_le_bytes(self.array(key)?).into()),
            1 => Value::Int(i8::from_le_bytes(self.array(key)?).into()),
            2 => Value::Int(u16::from_le_bytes(self.array(key)?).into()),
            3 => Value::Int(i16::from_le_bytes(self.array(key)?).into()),
            4 => Value::Int(self.u32(key)?.into()),
            5 => Value::Int(i32::from_le_bytes(self.array(key)?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array(key)?).into()),
            7 => Value::Bool(self.array::<1>(key)? != [0]),
            8 => Value::Text(self.string(key)?),
            9 => self.list(key, depth)?,
            10 => Value::Int(self.u64(key)?.into()),
            11 => Value::Int(i64::from_le_bytes(self.array(key)?).into()),
            12 => Value::Float(f64::from_le_bytes(self.array(key)?)),
            other => {
                return Err(ModelError::Damaged {
                    detail: format!("key \"{key}\" has a value of unknown type {other}"),
                });
            }
        })
    }

    fn list(&mut self, key: &str, depth: u32) -> Result<Value> {
        let kind = self.u32(key)?;
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            10..=12 => 8,
            8 => 8,
            // An array of arrays; no writer nests deeper than this, and a bottomless one would fill the stack.
            9 if depth < 4 => 12,
            other => {
                return Err(ModelError::Damaged {
                    detail: format!("key \"{key}\" is an array of unknown type {other}"),
                });
            }
        };
        let count = self.count(key, size)?;
        match kind {
            8 => {
                for _ in 0..count {
                    let len = self.u64(key)?;
                    self.skip(key, len)?;
                }
            }
            9 => {
                for _ in 0..count {
                    self.list(key, depth + 1)?;
                }
            }
            _ => self.skip(key, count * size)?,
        }
        Ok(Value::Array(count))
    }

    fn tensor(&mut self) -> Result<(String, Info)> {
        let name = self.string("a tensor's name")?;
        let rank = self.u32(&name)?;
        if rank == 0 || rank > 4 {
            return Err(ModelError::Damaged { detail: format!("tensor \"{name}\" has {rank} dimensions") });
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let dim = self.u64(&name)?;
            // Far beyond any file, and far below what an offset can hold.
            if dim > 1 << 40 {
                return Err(ModelError::Damaged {
                    detail: format!("tensor \"{name}\" has a dimension of {dim}"),
                });
            }
            shape.push(dim as usize);
        }
        // The file lists the innermost dimension first.
        shape.reverse();
        let dtype = ggml_type(self.u32(&name)?);
        Ok((name.clone(), Info { shape, dtype, offset: self.u64(&name)? }))
    }
}

/// GGML's numbers for tensor types.
pub(crate) const GGML_TYPES: [(u32, DType); 11] = [
    (0, DType::F32),
    (1, DType::F16),
    (2, DType::Q4_0),
    (3, DType::Q4_1),
    (6, DType::Q5_0),
    (7, DType::Q5_1),
    (8, DType::Q8_0),
    (12, DType::Q4K),
    (13, DType::Q5K),
    (14, DType::Q6K),
    (30, DType::BF16),
];

fn ggml_type(id: u32) -> Result<DType, u32> {
    GGML_TYPES.iter().find(|(n, _)| *n == id).map(|(_, d)| *d).ok_or(id)
}
