//! The same where nobody names the backend's crate.

fn main() {
    println!("{}", report::report());
}
