//! A GPU that is not there, for tests: one shared library that stands in for libcuda, NVRTC and cuBLASLt, and for
//! libamdhip64, hipRTC and hipBLASLt. "Compiling" runs the host's C++ compiler over the very source that the program hands to the
//! vendor's, "launching" runs it in a SIMT emulation (see `emulator/`). It is built when it is first asked for, by `g++`.
//!
//! A library path is read when a process starts, so what runs on the stand-in is a process of its own:
//! [`StandIn::command`], or for a test [`StandIn::test`].

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &[(&str, &str)] = &[
    ("pk_emu.h", include_str!("emulator/pk_emu.h")),
    ("engine.h", include_str!("emulator/engine.h")),
    ("engine.cpp", include_str!("emulator/engine.cpp")),
    ("device.h", include_str!("emulator/device.h")),
    ("device.cpp", include_str!("emulator/device.cpp")),
    ("calls.h", include_str!("emulator/calls.h")),
    ("cuda.cpp", include_str!("emulator/cuda.cpp")),
    ("hip.cpp", include_str!("emulator/hip.cpp")),
    ("blaslt.cpp", include_str!("emulator/blaslt.cpp")),
];
const INSIDE: &str = "STANDIN_INSIDE";
const SANITIZER: &str = "-g -fsanitize=address -fno-omit-frame-pointer";

/// How a process sees the stand-in.
#[derive(Clone, Debug)]
pub struct StandIn {
    settings: Vec<(String, String)>,
    /// The folders of libraries on the machine: driver and compiler of each vendor, and more.
    drivers: Vec<&'static str>,
    compilers: Vec<&'static str>,
    libraries: Vec<&'static str>,
    real_compiler: Option<PathBuf>,
    hip5: bool,
    sanitized: bool,
    cache: Option<PathBuf>,
}

impl StandIn {
    fn of(drivers: &[&'static str], compilers: &[&'static str], libraries: &[&'static str]) -> StandIn {
        StandIn {
            settings: Vec::new(),
            drivers: drivers.into(),
            compilers: compilers.into(),
            libraries: libraries.into(),
            real_compiler: None,
            hip5: false,
            sanitized: false,
            cache: None,
        }
    }

    /// One CUDA device of compute capability 8.0, with a compiler, and a cache of compiled kernels that runs share.
    pub fn cuda() -> StandIn {
        StandIn::of(&["libcuda.so.1"], &["libnvrtc.so.12"], &["libcublasLt.so.12"])
    }

    /// One ROCm device, gfx942 with wavefronts of 64, with a compiler, and a cache that runs share.
    pub fn rocm() -> StandIn {
        StandIn::of(&["libamdhip64.so.7"], &["libhiprtc.so.7"], &["libhipblaslt.so.1"])
    }

    /// The same as HIP 5 had it: one library for both, and the old layout of properties.
    pub fn hip5() -> StandIn {
        StandIn { hip5: true, ..StandIn::of(&["libamdhip64.so.5"], &[], &[]) }
    }

    /// Both devices, CUDA's and ROCm's, in one process.
    pub fn both() -> StandIn {
        let (cuda, rocm) = (StandIn::cuda(), StandIn::rocm());
        StandIn::of(
            &[cuda.drivers, rocm.drivers].concat(),
            &[cuda.compilers, rocm.compilers].concat(),
            &[cuda.libraries, rocm.libraries].concat(),
        )
    }

    /// No compiler on the machine.
    pub fn without_compiler(mut self) -> StandIn {
        self.compilers.clear();
        self
    }

    /// No cuBLASLt or hipBLASLt on the machine.
    pub fn without_libraries(mut self) -> StandIn {
        self.libraries.clear();
        self
    }

    /// No driver on the machine.
    pub fn without_driver(mut self) -> StandIn {
        self.drivers.clear();
        self
    }

    /// The real compiler, from its folder; what it makes does not run here.
    pub fn real_compiler(mut self, folder: PathBuf) -> StandIn {
        self.real_compiler = Some(folder);
        self.without_compiler()
    }

    /// Sets one of the variables of `emulator/device.h`, without its prefix: `set("SEED", 7)`.
    pub fn set(mut self, name: &str, value: impl ToString) -> StandIn {
        self.settings.push((format!("STANDIN_{name}"), value.to_string()));
        self
    }

    /// Sets any other variable.
    pub fn variable(mut self, name: &str, value: impl ToString) -> StandIn {
        self.settings.push((name.into(), value.to_string()));
        self
    }

    /// Kernels under AddressSanitizer.
    pub fn sanitized(mut self) -> StandIn {
        self.sanitized = true;
        self
    }

    /// A cache of its own for compiled kernels.
    pub fn cache(mut self, folder: &Path) -> StandIn {
        self.cache = Some(folder.into());
        self
    }

    /// A command that runs on it.
    ///
    /// # Panics
    /// The stand-in cannot be built: there is no `g++`.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let built = build(self.sanitized, self.hip5);
        let present = [&self.drivers, &self.libraries, &self.compilers];
        let mut folders: Vec<_> = present.into_iter().flatten().map(|name| built.join(name)).collect();
        // Behind the driver's folder: a real compiler may bring a driver of its own.
        folders.extend(self.real_compiler.clone());
        let mut command = Command::new(program);
        let cache = self.cache.clone().unwrap_or_else(|| built.join("cache"));
        command
            .env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap_or_default())
            .env("KERNELS_CACHE_DIR", cache)
            .env("STANDIN_MADE", built.join("made"));
        for place in ["CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"]
            .into_iter()
            .chain(["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
        {
            command.env_remove(place);
        }
        if self.sanitized {
            command
                .env("LD_PRELOAD", sanitizer())
                .env("STANDIN_CXXFLAGS", SANITIZER)
                // The process itself is not instrumented: what it leaks is not the kernels'.
                .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
        }
        command.envs(self.settings.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Runs the body of the test `name` of this test binary in a process on the stand-in. Returns whether this is that
    /// process; in the other one, the result is checked and there is nothing left to do.
    ///
    /// # Panics
    /// The test fails in there.
    pub fn test(&self, name: &str) -> bool {
        if std::env::var(INSIDE).as_deref() == Ok(name) {
            return true;
        }
        let me = std::env::current_exe().expect("a test binary has a path");
        let mut command = self.command(me);
        command.args([name, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
        let output = command.env(INSIDE, name).output().expect("a test binary starts");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        println!("{text}");
        assert!(output.status.success(), "{name} on the stand-in: {}", output.status);
        assert!(text.contains("1 passed"), "{name} did not run on the stand-in");
        false
    }
}

/// Where the sanitizer's runtime is.
fn sanitizer() -> String {
    let output = Command::new("g++").arg("-print-file-name=libasan.so").output().expect("g++ runs");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

/// The folder with the library in it, under the names that programs look for.
fn build(sanitized: bool, hip5: bool) -> PathBuf {
    let mut hash = Sha256::new();
    SOURCES.iter().for_each(|(_, text)| hash.update(text));
    let hash: String = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
    let kind = [if sanitized { "-sanitized" } else { "" }, if hip5 { "-hip5" } else { "" }].concat();
    let folder = target().join(format!("stand-in-{hash}{kind}"));
    if folder.exists() {
        return folder;
    }
    // Made aside and moved: several tests may build it at once.
    let aside = tempfile::tempdir_in(target()).expect("the target folder can be written to");
    let headers = target().join(format!("stand-in-headers-{hash}"));
    for at in [aside.path(), &headers] {
        std::fs::create_dir_all(at).expect("a folder");
        for (name, text) in SOURCES {
            std::fs::write(at.join(name), text).expect("a source");
        }
    }
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O2", "-fPIC", "-shared", "-pthread"]).current_dir(aside.path());
    if sanitized {
        compiler.args(SANITIZER.split(' '));
    }
    if hip5 {
        compiler.arg("-DHIP5");
    }
    compiler.arg(format!("-DEMU_HEADERS=\"{}\"", headers.display()));
    let sources = SOURCES.iter().map(|(name, _)| name).filter(|name| name.ends_with(".cpp"));
    let output = compiler.args(sources).args(["-o", "stand-in.so"]).output();
    let output = output.expect("the stand-in needs g++ (Debian: apt install g++)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::create_dir(aside.path().join("made")).expect("a folder");
    for all in [StandIn::both(), StandIn::hip5()] {
        for name in [all.drivers, all.compilers, all.libraries].concat() {
            let folder = aside.path().join(name);
            std::fs::create_dir(&folder).expect("a folder");
            // One file under all names, so that a process loads it once.
            std::fs::hard_link(aside.path().join("stand-in.so"), folder.join(name)).expect("a link");
        }
    }
    if std::fs::rename(aside.path(), &folder).is_ok() {
        let _ = aside.keep();
    }
    assert!(folder.exists(), "{} could not be made", folder.display());
    folder
}

/// The build folder that this binary lies in.
fn target() -> PathBuf {
    let me = std::env::current_exe().expect("a binary has a path");
    let folder = me.ancestors().find(|a| a.join("deps").is_dir() || a.ends_with("deps"));
    folder.unwrap_or(&std::env::temp_dir()).to_path_buf()
}
