//! Controls that go by the delay.

mod ledbat;
#[path = "../cubic/sender.rs"]
#[allow(dead_code)] // each test file uses its part
mod sender;
mod vegas;
