//! The ports that tests take.

use crate::kit::tied::places;

#[test]
fn single_ports_leave_room_for_those_of_rtp() {
    let taken = |count: u16| places(count).flat_map(move |first| first..first + count);
    let (single, of_a_phone): (Vec<u16>, Vec<u16>) = (taken(1).collect(), taken(10).collect());
    for count in [200, 400, 500] {
        assert!(places(count).count() > 0, "{count} consecutive ports are found");
        assert!(taken(count).all(|port| !single.contains(&port) && !of_a_phone.contains(&port)), "{count}");
    }
    assert!(single.len() >= 100 && places(1).all(|first| first % 2 == 0), "{single:?}");
}
