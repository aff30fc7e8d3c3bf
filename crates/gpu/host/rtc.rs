//! Run-time compilers: NVRTC's and hipRTC's interface, which are one but for the names.

use crate::program::HEADERS;
use std::ffi::{CString, c_char, c_int, c_void};

type Program = *mut c_void;
type Strings = *const *const c_char;
type SizeOf = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Read = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// A compiler's entry points.
#[derive(Clone, Copy)]
pub struct Rtc {
    /// Its name, for errors.
    pub name: &'static str,
    /// Program, source, file name, headers and their names.
    pub create:
        unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Strings, Strings) -> c_int,
    /// Program and flags.
    pub compile: unsafe extern "C" fn(Program, c_int, Strings) -> c_int,
    /// What the compiler says.
    pub log: (SizeOf, Read),
    /// Gives it back.
    pub destroy: unsafe extern "C" fn(*mut Program) -> c_int,
}

/// What is compiled: a source by its file's name, with flags; the shim's headers are there.
pub struct Unit<'a> {
    /// The file's name, in messages.
    pub file: &'a str,
    /// The source.
    pub text: &'a str,
    /// Flags.
    pub flags: &'a [String],
    /// The functions that read what was made, and its name.
    pub image: (SizeOf, Read, &'static str),
}

impl Rtc {
    /// The image and the log.
    ///
    /// # Errors
    /// The log, or what the compiler answers.
    pub fn compile(&self, unit: &Unit<'_>) -> Result<(Vec<u8>, String), String> {
        let string = |text: &str| CString::new(text).map_err(|e| e.to_string());
        let strings =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(string).collect::<Result<Vec<_>, _>>();
        let (file, text) = (string(unit.file)?, string(unit.text)?);
        let names = strings(&mut HEADERS.iter().map(|h| h.0))?;
        let texts = strings(&mut HEADERS.iter().map(|h| h.1))?;
        let flags = strings(&mut unit.flags.iter().map(String::as_str))?;
        let pointers = |all: &[CString]| all.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (names, texts, flags) = (pointers(&names), pointers(&texts), pointers(&flags));
        let mut program = std::ptr::null_mut();
        // SAFETY: every string lives until the program is destroyed; lists have the lengths given.
        unsafe {
            let count = HEADERS.len() as c_int;
            let (text, file) = (text.as_ptr(), file.as_ptr());
            let created = (self.create)(&mut program, text, file, count, texts.as_ptr(), names.as_ptr());
            if created != 0 {
                return Err(format!("{} answers {created} when given a program", self.name));
            }
            let compiled = (self.compile)(program, flags.len() as c_int, flags.as_ptr());
            let log = self.output(program, self.log.0, self.log.1, "log");
            let log = log.map(|l| String::from_utf8_lossy(&l).trim_end_matches(['\0', '\n']).to_string());
            let log = log.unwrap_or_default();
            let (size, read, what) = unit.image;
            let image = match compiled {
                0 => self.output(program, size, read, what),
                _ if log.is_empty() => Err(format!("{} answers {compiled} when asked to compile", self.name)),
                _ => Err(log.clone()),
            };
            (self.destroy)(&mut program);
            image.map(|image| (image, log))
        }
    }

    /// # Safety
    /// The program is live, and the two functions are a size and the matching read.
    unsafe fn output(
        &self,
        program: Program,
        size: SizeOf,
        read: Read,
        what: &str,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the buffer has the size that the compiler asked for.
        unsafe {
            if size(program, &mut bytes) != 0 || bytes == 0 {
                return Err(format!("{} compiled, and gives no {what}", self.name));
            }
            let mut out = vec![0u8; bytes];
            match read(program, out.as_mut_ptr().cast()) {
                0 => Ok(out),
                code => Err(format!("{} answers {code} when asked for {what}", self.name)),
            }
        }
    }
}
