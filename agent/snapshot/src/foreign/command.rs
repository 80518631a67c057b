//! Converts the output of commands to the kernel's format.

/// `lsmod` as `/proc/modules`.
pub(super) fn modules(list: &str) -> String {
    let module = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, size, count) = (words.next()?, words.next()?, words.next()?);
        // The heading has words instead of numbers.
        size.parse::<u64>().ok()?;
        let count: i64 = count.parse().ok()?;
        let users = words.next().map_or("-".to_owned(), |users| {
            format!("{},", users.trim_end_matches(','))
        });
        Some(format!("{name} {size} {count} {users} Live 0x0000000000000000\n"))
    };
    list.lines().filter_map(module).collect()
}

/// The command line that the kernel repeats in its log.
pub(super) fn cmdline(dmesg: &str) -> Option<String> {
    let found = dmesg.lines().find_map(|line| {
        line.split_once("Command line: ")
            .or_else(|| line.split_once("Kernel command line: "))
    });
    found.map(|(_, arguments)| arguments.to_owned())
}

/// The kernel's release, from the first line of its log.
pub(super) fn release(dmesg: &str) -> Option<String> {
    let (_, rest) = dmesg
        .lines()
        .take(200)
        .find_map(|line| line.split_once("Linux version "))?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Host and release in `uname -a`.
pub(super) fn uname(text: &str) -> Option<(String, String)> {
    let mut words = text.split_whitespace();
    (words.next()? == "Linux").then_some(())?;
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn modules_are_listed_as_the_kernel_does() {
        let list = "Module                  Size  Used by\n\
            mlx5_ib               462848  0\n\
            ib_core               471040  3 mlx5_ib,rdma_cm,ib_uverbs\n\
            hal                    12288 -2\n";
        assert_eq!(
            modules(list),
            "mlx5_ib 462848 0 - Live 0x0000000000000000\n\
             ib_core 471040 3 mlx5_ib,rdma_cm,ib_uverbs, Live 0x0000000000000000\n\
             hal 12288 -2 - Live 0x0000000000000000\n"
        );
    }

    #[test]
    fn the_log_shows_release_and_command_line() {
        let dmesg = "[    0.000000] Linux version 5.14.0-427.el9.x86_64 (mock@build) #1 SMP\n\
            [    0.000000] Command line: BOOT_IMAGE=/vmlinuz iommu=pt\n";
        assert_eq!(release(dmesg).as_deref(), Some("5.14.0-427.el9.x86_64"));
        assert_eq!(cmdline(dmesg).as_deref(), Some("BOOT_IMAGE=/vmlinuz iommu=pt"));
        assert_eq!(
            uname("Linux gpu-17 5.14.0 #1 SMP x86_64"),
            Some(("gpu-17".into(), "5.14.0".into()))
        );
        assert_eq!(uname("bash: uname: command not found"), None);
    }

    proptest! {
        #[test]
        fn every_module_is_one_that_the_list_names(
            text in "([a-z_0-9]{1,9} {1,3}[0-9]{1,20} {1,3}-?[0-9]{1,20}( [a-z,]{1,9})?\n|\\PC{0,12}\n){0,6}",
        ) {
            for module in modules(&text).lines() {
                let words: Vec<_> = module.split_whitespace().collect();
                prop_assert_eq!((words.len(), words[4]), (6, "Live"), "{}", module);
                prop_assert!(text.lines().any(|line| line.split_whitespace().next() == Some(words[0])), "{module}");
                prop_assert!(words[3] == "-" || words[3].ends_with(','), "{module}");
            }
        }
    }
}
