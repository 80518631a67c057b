//! What to do on a node without containers, where the table speaks of pods.

/// The next step of the cause with this id on a node where neither a container runtime nor a kubelet runs; `None` if it is the same.
pub(crate) fn next_step(id: &str) -> Option<&'static str> {
    Some(match id {
        "memlock-limit" => {
            "Run ulimit -l where the job runs, started the same way (srun, mpirun, systemd). If it is not unlimited, write '* - memlock \
            unlimited' to a file in /etc/security/limits.d, and set LimitMEMLOCK=infinity for the unit of the service or of slurmd."
        }
        "device-not-given" => {
            "Run ls -l /dev/infiniband where the job runs. A job in a container needs these files in it: docker and podman with --device /dev/infiniband, a pod with the RDMA resource in its limits, enroot and Apptainer with \
            a mount. Slurm may exclude devices from a job (ConstrainDevices in cgroup.conf)."
        }
        "device-permission" => {
            "Run ls -l /dev/infiniband and id as the user of the job. uverbs* and rdma_cm have mode 0666 by the rules of rdma-core (udevadm trigger \
            restores it); another mode, SELinux (ausearch -m avc -ts recent) or a program that gives up its privileges after it opened the \
            device is the reason. Raw packets (DPDK, libvma) also need the capability NET_RAW."
        }
        "gid-other-namespace" => {
            "Where the job runs, compare grep . /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/* with ip -brief link: a device whose network \
            device is not listed cannot be used there. Run the job in the network namespace of the host, or restrict it to the devices that it has: \
            NCCL_IB_HCA, UCX_NET_DEVICES."
        }
        _ => return None,
    })
}
