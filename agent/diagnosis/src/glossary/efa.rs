//! Errors of libfabric's provider for EFA.

rows! {
    /// The provider's own errors (`EFA_PROV_ERRNOS` of its `efa_errno.h`) in the order of their numbers, which begin at 4096.
    ERRORS:
    "FI_EFA_ERR_OTHER": "4096: an error that the provider does not name";
    "FI_EFA_ERR_DEPRECATED_PKT_TYPE": "4097: a packet of a deprecated type: the peer has an older release of libfabric"
        ["userspace-libraries"];
    "FI_EFA_ERR_INVALID_PKT_TYPE": "4098: a packet of a type that is not valid here: the releases of libfabric differ"
        ["userspace-libraries"];
    "FI_EFA_ERR_UNKNOWN_PKT_TYPE": "4099: a packet of an unknown type: the peer has a newer release of libfabric"
        ["userspace-libraries"];
    "FI_EFA_ERR_PKT_POST": "4100: a packet could not be posted" ["hca-resources"];
    "FI_EFA_ERR_PKT_SEND": "4101: a packet could not be sent" ["fabric-or-peer"];
    "FI_EFA_ERR_PKT_PROC_MSGRTM": "4102: a message of the peer could not be processed";
    "FI_EFA_ERR_PKT_PROC_TAGRTM": "4103: a tagged message of the peer could not be processed";
    "FI_EFA_ERR_PKT_ALREADY_PROCESSED": "4104: a packet came a second time";
    "FI_EFA_ERR_OOM": "4105: out of memory" ["memlock-limit", "hca-resources"];
    "FI_EFA_ERR_MR_DEREG": "4106: a memory region could not be released";
    "FI_EFA_ERR_RXE_COPY": "4107: data could not be copied to the buffer of the receiver";
    "FI_EFA_ERR_RXE_POOL_EXHAUSTED": "4108: too many receive operations are open" ["hca-resources"];
    "FI_EFA_ERR_TXE_POOL_EXHAUSTED": "4109: too many send operations are open" ["hca-resources"];
    "FI_EFA_ERR_AV_INSERT": "4110: the address of a peer could not be added to the address vector" ["addressing"];
    "FI_EFA_ERR_RMA_ADDR": "4111: the remote memory of an operation is not registered, or not for this access"
        ["application-memory"];
    "FI_EFA_ERR_INTERNAL_RX_BUF_POST": "4112: the provider could not post its own receive buffers" ["hca-resources"];
    "FI_EFA_ERR_PEER_HANDSHAKE": "4113: the handshake could not be sent to the peer" ["fabric-or-peer"];
    "FI_EFA_ERR_WR_POST_SEND": "4114: a work request could not be posted to the send queue" ["hca-resources"];
    "FI_EFA_ERR_RTM_MISMATCH": "4115: the sizes of a message and of its packets differ" ["application-memory"];
    "FI_EFA_ERR_READ_POST": "4116: a read request could not be posted, often because the queue is full or the peer is gone"
        ["hca-resources", "peer-failed"];
    "FI_EFA_ERR_RDMA_READ_POST": "4117: an RDMA read request could not be posted, often because the queue is full or the peer is gone"
        ["hca-resources", "peer-failed"];
    "FI_EFA_ERR_INVALID_DATATYPE": "4118: the data type of an atomic operation is not valid";
    "FI_EFA_ERR_WRITE_SEND_COMP": "4119: the completion of a send could not be written";
    "FI_EFA_ERR_WRITE_RECV_COMP": "4120: the completion of a receive could not be written";
    "FI_EFA_ERR_DGRAM_CQ_READ": "4121: the completion queue of a datagram endpoint could not be read";
    "FI_EFA_ERR_SHM_INTERNAL_ERROR": "4122: an error of the shared memory between processes of this node";
    "FI_EFA_ERR_WRITE_SHM_CQ_ENTRY": "4123: a completion of the shared memory between processes could not be written";
    "FI_EFA_ERR_ESTABLISHED_RECV_UNRESP": "4124: the peer answered earlier, and does so no more"
        ["peer-failed", "fabric-or-peer"];
    "FI_EFA_ERR_INVALID_PKT_TYPE_ZCPY_RX": "4125: a packet that does not go with receiving without copies: the settings of the peers differ"
        ["job-settings"];
    "FI_EFA_ERR_UNESTABLISHED_RECV_UNRESP": "4126: the adapter reaches the peer, whose program does not answer the handshake"
        ["peer-failed", "fabric-or-peer"];
    "FI_EFA_ERR_PEER_ABORTED": "4127: the peer closed its memory region or endpoint during the operation" ["peer-failed"];
}
