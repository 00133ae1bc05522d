//! Result files of other tools.
