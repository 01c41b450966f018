// main.rs - Rust threads, channels, sleeps and a child process.
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn main() {
    let (tx, rx) = mpsc::channel();
    let mut all = Vec::new();
    for i in 0..4u64 {
        let tx = tx.clone();
        all.push(thread::spawn(move || {
            for _ in 0..5 {
                thread::sleep(Duration::from_millis(2));
            }
            tx.send(i).unwrap();
        }));
    }
    for t in all {
        t.join().unwrap();
    }
    drop(tx);
    let sum: u64 = rx.iter().sum();
    let st = Command::new("/bin/sh").arg("-c").arg("exit 3").status().unwrap();
    println!("{} {}", sum, st.code().unwrap());
    std::process::exit(4);
}
