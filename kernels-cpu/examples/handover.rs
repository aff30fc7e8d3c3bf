//! How long until another thread works on a call: `cargo run --release -p kernels-cpu --example handover`.

fn main() {
    match kernels_cpu::handover(1000) {
        Some(h) => println!(
            "a thread that is awake begins after {:?}, one that sleeps after {:?}",
            h.awake, h.asleep
        ),
        None => println!("no second thread could be had"),
    }
}
