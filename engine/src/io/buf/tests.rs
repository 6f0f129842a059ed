use super::*;

#[test]
fn a_block_returns_to_its_pool_from_any_thread() {
    let pool = Pool::new(1 << 20);
    let mut buffer = pool.take(100).expect("within budget");
    buffer.append(b"hello");
    let slice = buffer.slice(1..4);
    drop(buffer);
    assert_eq!(pool.in_use_bytes(), 4096);
    std::thread::spawn(move || assert_eq!(&slice[..], b"ell")).join().expect("no panic");
    assert_eq!(pool.in_use_bytes(), 0);
}

#[test]
fn the_budget_is_an_answer() {
    let pool = Pool::new(8192);
    let first = pool.take(1).expect("within budget");
    let second = pool.take(4096).expect("within budget");
    assert!(pool.take(1).is_none());
    drop((first, second));
    assert!(pool.take(1).is_some());
}

#[test]
fn a_pool_dropped_before_its_blocks_leaks_nothing_live() {
    let pool = Pool::new(1 << 20);
    let slice = pool.take(10).expect("within budget").freeze();
    drop(pool);
    assert!(slice.is_empty());
}

#[test]
fn appending_leaves_earlier_slices_alone() {
    let mut buffer = TailBuf::unpooled(4096);
    buffer.append(b"abc");
    let early = buffer.slice(0..3);
    assert_eq!(buffer.append(&[b'x'; 5000]), 4093);
    assert_eq!(&early[..], b"abc");
    assert_eq!(buffer.spare(), 0);
}

#[test]
fn chains_cut_and_copy_across_slices() {
    let mut chain = Chain::new();
    for part in [&b"ab"[..], b"", b"cdef", b"g"] {
        chain.push(Slice::copy_of(part));
    }
    assert_eq!(chain.sub(1..6).to_vec(), b"bcdef");
    let mut target = [0; 3];
    chain.copy_to(4, &mut target);
    assert_eq!(&target, b"efg");
}

#[test]
fn a_chain_pins_the_blocks_that_it_lies_in() {
    let pool = Pool::new(1 << 20);
    let block = |class: usize| {
        let mut buffer = pool.take(class).expect("within the budget");
        buffer.append(&[1; 100]);
        buffer.freeze()
    };
    let (small, large) = (block(4096), block(65536));
    let mut chain = Chain::new();
    assert_eq!(chain.pinned_bytes(), 0);
    chain.push(small.sub(0..10));
    chain.push(small.sub(50..51));
    assert_eq!(chain.pinned_bytes(), 4096);
    chain.push(large.sub(0..1));
    assert_eq!(chain.pinned_bytes(), 4096 + 65536);
}
