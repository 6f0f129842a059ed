//! Kafka's error codes: the only place in Millrace that knows them.
//!
//! The table is Apache Kafka 4.4's `Errors`, with its names and with what its clients may retry.

use std::fmt;

use millrace_engine::error::{Error, Kind};

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $name:literal, $retriable:ident;)*) => {
        /// An error code as responses carry it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $name, "`")] $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code, ascending.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code of this number; `UnknownServerError` for one that Kafka 4.4 does not
            /// have, as its own clients take it.
            #[must_use]
            pub const fn from_i16(code: i16) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    _ => Self::UnknownServerError,
                }
            }

            /// Kafka's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Whether Kafka's clients try the request again.
            #[must_use]
            pub const fn is_retriable(self) -> bool {
                match self {
                    $(Self::$variant => error_codes!(@$retriable),)*
                }
            }
        }
    };
    (@final) => { false };
    (@retry) => { true };
}

error_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", final;
    None = 0, "NONE", final;
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", final;
    CorruptMessage = 2, "CORRUPT_MESSAGE", retry;
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", retry;
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", final;
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", retry;
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", retry;
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", retry;
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", final;
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", retry;
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", final;
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", final;
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", final;
    NetworkException = 13, "NETWORK_EXCEPTION", retry;
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", retry;
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", retry;
    NotCoordinator = 16, "NOT_COORDINATOR", retry;
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", final;
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", final;
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", retry;
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", retry;
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", final;
    IllegalGeneration = 22, "ILLEGAL_GENERATION", final;
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", final;
    InvalidGroupId = 24, "INVALID_GROUP_ID", final;
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", final;
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", final;
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", final;
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", final;
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", final;
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", final;
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", final;
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", final;
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM", final;
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE", final;
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", final;
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", final;
    InvalidPartitions = 37, "INVALID_PARTITIONS", final;
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", final;
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", final;
    InvalidConfig = 40, "INVALID_CONFIG", final;
    NotController = 41, "NOT_CONTROLLER", retry;
    InvalidRequest = 42, "INVALID_REQUEST", final;
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", final;
    PolicyViolation = 44, "POLICY_VIOLATION", final;
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", final;
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", final;
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", final;
    InvalidTxnState = 48, "INVALID_TXN_STATE", final;
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", final;
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", final;
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", retry;
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", final;
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", final;
    SecurityDisabled = 54, "SECURITY_DISABLED", final;
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", final;
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", retry;
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND", final;
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED", final;
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", final;
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", final;
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED", final;
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND", final;
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH", final;
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", final;
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", final;
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED", final;
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE", final;
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", final;
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", final;
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", retry;
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", retry;
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", retry;
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", final;
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", retry;
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", retry;
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", final;
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", final;
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", retry;
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", final;
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", retry;
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", final;
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", final;
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", retry;
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", retry;
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", final;
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", final;
    InvalidRecord = 87, "INVALID_RECORD", final;
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", retry;
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", retry;
    ProducerFenced = 90, "PRODUCER_FENCED", final;
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND", final;
    DuplicateResource = 92, "DUPLICATE_RESOURCE", final;
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL", final;
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET", final;
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", final;
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED", final;
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE", final;
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", final;
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", final;
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", retry;
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", final;
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", final;
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", retry;
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID", final;
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", final;
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR", retry;
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", final;
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", final;
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", final;
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", final;
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", final;
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", final;
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", final;
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE", final;
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE", final;
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID", final;
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID", final;
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE", final;
    InvalidRegistration = 119, "INVALID_REGISTRATION", final;
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", final;
    InvalidRecordState = 121, "INVALID_RECORD_STATE", final;
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", retry;
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", retry;
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", final;
    InvalidVoterKey = 125, "INVALID_VOTER_KEY", final;
    DuplicateVoter = 126, "DUPLICATE_VOTER", final;
    VoterNotFound = 127, "VOTER_NOT_FOUND", final;
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", final;
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", final;
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY", final;
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH", final;
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED", final;
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", retry;
    GroupDeletionFailed = 134, "GROUP_DELETION_FAILED", final;
    StreamsTopologyDescriptionUpdateFailed = 135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
        final;
    ControllerIdNotRegistered = 136, "CONTROLLER_ID_NOT_REGISTERED", final;
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Whether this is no error.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }
}

impl From<ErrorCode> for i16 {
    fn from(code: ErrorCode) -> Self {
        code.code()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.name(), self.code())
    }
}

impl From<Kind> for ErrorCode {
    /// What a client is told when all that is known is the kind. Retriable kinds map to codes that
    /// every client retries; a disk failure is final for this broker, yet `KAFKA_STORAGE_ERROR`
    /// makes clients look for another leader.
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Retry => Self::RequestTimedOut,
            Kind::NotOwner => Self::NotLeaderOrFollower,
            Kind::Fenced => Self::FencedLeaderEpoch,
            Kind::Full | Kind::Fatal => Self::KafkaStorageError,
            Kind::Invalid => Self::InvalidRequest,
            Kind::Corrupt => Self::CorruptMessage,
        }
    }
}

impl From<&Error> for ErrorCode {
    fn from(error: &Error) -> Self {
        error.kind().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_without_a_gap() {
        for (code, expected) in ErrorCode::ALL.iter().zip(-1_i16..) {
            assert_eq!(code.code(), expected);
            assert_eq!(ErrorCode::from_i16(expected), *code);
        }
        assert_eq!(ErrorCode::from_i16(i16::MAX), ErrorCode::UnknownServerError);
    }

    #[test]
    fn known_codes_have_their_numbers() {
        assert_eq!(ErrorCode::UnsupportedVersion.code(), 35);
        assert_eq!(ErrorCode::KafkaStorageError.code(), 56);
        assert_eq!(ErrorCode::UnknownTopicId.code(), 100);
        assert!(ErrorCode::NotLeaderOrFollower.is_retriable());
        assert!(!ErrorCode::MessageTooLarge.is_retriable());
    }
}
