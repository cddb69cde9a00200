//! Controls that go by the delay.

mod ledbat;
mod vegas;
