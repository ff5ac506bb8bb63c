//! Every scenario between two emulated devices that exchange UDP datagrams through the kernel.

mod captures;
mod judged;
mod network;
mod variations;
mod world;

/// Defines the tests of one family: each calls a function of the same name with the family.
macro_rules! tests_of_family {
    ($module:ident: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let test = concat!(module_path!(), "::", stringify!($name));
                on(FAMILY, test, || $module::$name(FAMILY));
            }
        )*
    };
}

macro_rules! over_udp {
    ([$($name:ident)*]) => {
        over_udp! { @family v4 V4 [$($name)*] }
        over_udp! { @family v6 V6 [$($name)*] }
    };
    (@family $module:ident $family:ident $names:tt) => {
        mod $module {
            use softrnic_conformance::lab::Family;

            use super::network::on;
            use super::{captures, judged, variations};

            const FAMILY: Family = Family::$family;

            over_udp! { @profile spec SPEC $names }
            over_udp! { @profile rxe RXE $names }

            tests_of_family! { variations:
                roles_swapped
                sequence_numbers_wrap
                path_mtu_256
                path_mtu_512
                path_mtu_1024
                path_mtu_2048
                path_mtu_4096
                compare_and_swap_that_hits
                refused_access_raises_an_event
            }
            tests_of_family! { judged:
                checksums_and_datagrams
            }
            tests_of_family! { captures:
                packets_are_the_recorded_ones
                every_icrc_is_right
                dissectors_read_every_frame
            }
        }
    };
    (@profile $profile:ident $judged:ident [$($name:ident)*]) => {
        #[expect(non_snake_case, reason = "the names of the recording")]
        mod $profile {
            use super::FAMILY;
            use crate::udp::network::on;
            use crate::udp::world::Run;
            use crate::world::$judged;

            $(
                #[test]
                fn $name() {
                    let test = concat!(module_path!(), "::", stringify!($name));
                    on(FAMILY, test, || Run::straight(FAMILY, &$judged).check(stringify!($name)));
                }
            )*
        }
    };
}

for_every_scenario!(over_udp);
