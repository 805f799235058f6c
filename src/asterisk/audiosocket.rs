//! TBD
pub struct Sender;
impl Sender {
    pub fn play(&mut self, _frame: bytes::Bytes) -> bool {
        false
    }
}
