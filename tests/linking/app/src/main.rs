//! Prints what was linked.

fn main() {
    println!("{}", report::report());
}
