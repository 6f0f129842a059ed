//! The one table of APIs and versions: Apache Kafka 4.2's, as far as it is served here.
//!
//! Clients tell from this table which Kafka they speak to, so a row says what 4.2 says or is not
//! there at all. Two rows lie, as Kafka's do: Produce is advertised from 0 but served from 3
//! (KAFKA-18659: older librdkafka stops compressing otherwise), and ApiVersions answers any
//! version.

/// One API of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// The API.
    pub key: ApiKey,
    /// Lowest version advertised.
    pub min: i16,
    /// Highest version advertised and served.
    pub max: i16,
    /// First version with compact strings and tagged fields (KIP-482).
    pub flexible_from: i16,
}

macro_rules! api_table {
    ($($name:ident = $code:literal: $min:literal - $max:literal, flexible $flexible:literal;)*) => {
        /// An API that is served.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $(#[doc = concat!("Kafka's `", stringify!($name), "`.")] $name = $code,)*
        }

        /// Every API that is served, by ascending key.
        pub const API_TABLE: &[Api] = &[
            $(Api { key: ApiKey::$name, min: $min, max: $max, flexible_from: $flexible },)*
        ];

        impl ApiKey {
            /// The API with this number on the wire, if it is served.
            #[must_use]
            pub fn from_i16(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its row of [`API_TABLE`].
            #[must_use]
            pub const fn api(self) -> Api {
                match self {
                    $(Self::$name => {
                        Api { key: self, min: $min, max: $max, flexible_from: $flexible }
                    })*
                }
            }
        }
    };
}

api_table! {
    Produce = 0: 0 - 13, flexible 9;
    Fetch = 1: 4 - 18, flexible 12;
    ListOffsets = 2: 1 - 11, flexible 6;
    Metadata = 3: 0 - 13, flexible 9;
    FindCoordinator = 10: 0 - 6, flexible 3;
    ApiVersions = 18: 0 - 4, flexible 3;
    CreateTopics = 19: 2 - 7, flexible 5;
    DeleteTopics = 20: 1 - 6, flexible 4;
    DeleteRecords = 21: 0 - 2, flexible 2;
    InitProducerId = 22: 0 - 5, flexible 2;
    OffsetForLeaderEpoch = 23: 2 - 4, flexible 4;
    DescribeConfigs = 32: 1 - 4, flexible 4;
    AlterConfigs = 33: 0 - 2, flexible 2;
    CreatePartitions = 37: 0 - 3, flexible 2;
    IncrementalAlterConfigs = 44: 0 - 1, flexible 1;
    DescribeCluster = 60: 0 - 2, flexible 0;
}

/// The lowest Produce version that is served; below it lie the record formats of before 0.11.
pub const PRODUCE_SERVED_FROM: i16 = 3;

impl ApiKey {
    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Whether requests of this version are answered.
    #[must_use]
    pub const fn serves(self, version: i16) -> bool {
        let api = self.api();
        let min = match self {
            Self::Produce => PRODUCE_SERVED_FROM,
            _ => api.min,
        };
        version >= min && version <= api.max
    }

    /// Whether bodies of this version use compact strings and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.api().flexible_from
    }

    /// Whether responses of this version have tagged fields in their header.
    #[must_use]
    pub const fn has_flexible_response_header(self, version: i16) -> bool {
        self.is_flexible(version) && !matches!(self, Self::ApiVersions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_ascend_and_look_up() {
        assert!(API_TABLE.is_sorted_by(|left, right| left.key < right.key));
        for api in API_TABLE {
            assert_eq!(ApiKey::from_i16(api.key.code()), Some(api.key));
            assert_eq!(api.key.api(), *api);
            assert!(api.min <= api.max && api.flexible_from <= api.max);
        }
        assert_eq!(ApiKey::from_i16(4), None);
    }

    #[test]
    fn produce_is_advertised_lower_than_it_is_served() {
        assert_eq!(ApiKey::Produce.api().min, 0);
        assert!(!ApiKey::Produce.serves(2));
        assert!(ApiKey::Produce.serves(3) && ApiKey::Produce.serves(13));
        assert!(!ApiKey::Produce.serves(14));
    }
}
