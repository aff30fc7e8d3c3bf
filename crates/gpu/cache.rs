//! Compiled kernels on disk: a file each, named by what it was made of. Files appear whole or not at all, so any number
//! of processes may share the folder; a damaged one counts as missing.

use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The variable that names the folder; `off` keeps nothing.
pub const FOLDER_VARIABLE: &str = "KERNELS_CACHE_DIR";
/// The variable that bounds its size, in MiB.
pub const LIMIT_VARIABLE: &str = "KERNELS_CACHE_MB";
/// A model needs a few dozen kernels of some 20 KiB.
const DEFAULT_LIMIT_MB: u64 = 256;
const MAGIC: &[u8; 8] = b"kernels1";
const SUFFIX: &str = "bin";

/// What a compiled kernel is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Source and options.
    pub stem: String,
    /// Architecture.
    pub arch: String,
    /// Of source, headers and flags.
    pub digest: String,
    /// Name and version.
    pub compiler: String,
}

/// A file of the cache.
#[derive(Clone, Debug)]
pub struct File {
    /// What it holds.
    pub entry: Entry,
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last used.
    pub used: SystemTime,
}

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
}

impl Cache {
    /// The user's: `KERNELS_CACHE_DIR`, else `kernel-registry` in the system's cache folder.
    ///
    /// # Errors
    /// It is switched off, or the system has no such folder.
    pub fn of_user() -> Result<Cache, String> {
        let folder = match std::env::var_os(FOLDER_VARIABLE) {
            Some(word) if word == "off" => return Err(format!("{FOLDER_VARIABLE} is off")),
            Some(folder) if !folder.is_empty() => folder.into(),
            _ => dirs::cache_dir()
                .ok_or_else(|| format!("no cache folder is known; set {FOLDER_VARIABLE} to one"))?
                .join("kernel-registry"),
        };
        let limit =
            std::env::var(LIMIT_VARIABLE).ok().and_then(|v| v.parse().ok()).unwrap_or(DEFAULT_LIMIT_MB);
        Ok(Cache::at(folder, limit << 20))
    }

    /// In a folder, of so many bytes at most.
    pub fn at(folder: PathBuf, limit: u64) -> Cache {
        Cache { folder, limit }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many bytes it may hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The code of an entry; `None` where there is none, or it is damaged.
    pub fn get(&self, entry: &Entry) -> Option<Vec<u8>> {
        read(&self.path(entry))
    }

    /// The same, whatever compiler made it.
    pub fn get_of_any_compiler(&self, entry: &Entry) -> Option<Vec<u8>> {
        let fits = |f: &File| Entry { compiler: entry.compiler.clone(), ..f.entry.clone() } == *entry;
        self.list().ok()?.iter().filter(|f| fits(f)).find_map(|f| read(&f.path))
    }

    /// Whether something of one of these sources is there for an architecture.
    pub fn has_any(&self, sources: &[&str], arch: &str) -> bool {
        let fits = |f: &File| {
            let source = f.entry.stem.split('.').next().unwrap_or_default();
            f.entry.arch == arch && sources.contains(&source)
        };
        self.list().is_ok_and(|all| all.iter().any(fits))
    }

    /// Keeps an entry's code, and drops what was not used for longest where the folder grows too large.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn put(&self, entry: &Entry, image: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&Sha256::digest(image))?;
        file.write_all(image)?;
        file.persist(self.path(entry))?;
        self.shrink(self.limit).map(|_| ())
    }

    /// What is there, last used first.
    ///
    /// # Errors
    /// The folder cannot be read; one that is not there is empty.
    pub fn list(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        let folder = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(files),
            folder => folder?,
        };
        for item in folder {
            let item = item?;
            let (Some(entry), Ok(meta)) = (parse(&item.path()), item.metadata()) else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push(File { entry, path: item.path(), bytes: meta.len(), used });
        }
        files.sort_by_key(|f| std::cmp::Reverse(f.used));
        Ok(files)
    }

    /// Removes all of it; returns how many files and bytes that were.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> io::Result<(usize, u64)> {
        self.shrink(0)
    }

    fn shrink(&self, limit: u64) -> io::Result<(usize, u64)> {
        let (mut kept, mut removed) = (0, (0, 0));
        for file in self.list()? {
            kept += file.bytes;
            if kept > limit {
                match fs::remove_file(&file.path) {
                    // Another process was faster.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    done => done?,
                }
                removed = (removed.0 + 1, removed.1 + file.bytes);
            }
        }
        Ok(removed)
    }

    fn path(&self, entry: &Entry) -> PathBuf {
        let Entry { stem, arch, digest, compiler } = entry;
        let compiler: String =
            compiler.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
        self.folder.join(format!("{stem}-{arch}-{digest}-{compiler}.{SUFFIX}"))
    }
}

fn parse(path: &Path) -> Option<Entry> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.strip_suffix('.')?;
    let mut parts = name.split('-').map(String::from);
    let entry =
        Entry { stem: parts.next()?, arch: parts.next()?, digest: parts.next()?, compiler: parts.next()? };
    parts.next().is_none().then_some(entry)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(path).ok()?;
    let image = bytes.strip_prefix(MAGIC)?.get(32..)?;
    if bytes.get(8..40) != Some(Sha256::digest(image).as_slice()) {
        let _ = fs::remove_file(path);
        return None;
    }
    // Last used now; on a folder that cannot be written to that does not matter.
    let _ = fs::File::options().append(true).open(path).and_then(|f| f.set_modified(SystemTime::now()));
    Some(bytes.split_off(40))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(stem: &str, compiler: &str) -> Entry {
        let (arch, digest) = ("sm_80".into(), "0a1b".into());
        Entry { stem: stem.into(), arch, digest, compiler: compiler.into() }
    }

    #[test]
    fn keeps_finds_and_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("new"), 1000);
        let a = entry("rms.1.0", "nvrtc 13.0");
        assert_eq!(cache.get(&a), None);
        cache.put(&a, b"code").unwrap();
        assert_eq!(cache.get(&a).as_deref(), Some(b"code".as_slice()));
        assert_eq!(cache.get(&entry("rms.1.0", "nvrtc 12.9")), None);
        assert_eq!(cache.get_of_any_compiler(&entry("rms.1.0", "")).as_deref(), Some(b"code".as_slice()));
        assert!(cache.has_any(&["gemm", "rms"], "sm_80") && !cache.has_any(&["rms"], "sm_90"));
        // Two more do not fit: the one that was not used for longest goes.
        let old = SystemTime::now() - std::time::Duration::from_secs(60);
        let file = fs::File::options().append(true).open(&cache.list().unwrap()[0].path).unwrap();
        file.set_modified(old).unwrap();
        cache.put(&entry("b", "c"), &[1; 600]).unwrap();
        cache.put(&entry("d", "c"), &[1; 300]).unwrap();
        assert_eq!(cache.get(&a), None);
        assert_eq!(cache.list().unwrap().len(), 2);
        assert_eq!(cache.clear().unwrap().0, 2);
        assert!(cache.list().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_file_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().into(), 1 << 20);
        let a = entry("rms", "c");
        for damage in [&b""[..], b"kern", b"kernels1short", &[b"kernels1".as_slice(), &[0; 60]].concat()] {
            cache.put(&a, b"code").unwrap();
            fs::write(&cache.list().unwrap()[0].path, damage).unwrap();
            assert_eq!(cache.get(&a), None);
        }
    }

    #[test]
    fn many_writers_leave_whole_files() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().into(), 1 << 20);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        cache.put(&entry("rms", "c"), &[7; 5000]).unwrap();
                        assert_eq!(cache.get(&entry("rms", "c")).map(|i| i.len()), Some(5000));
                    }
                });
            }
        });
        assert_eq!(cache.list().unwrap().len(), 1);
    }
}
