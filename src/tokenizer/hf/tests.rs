//! Files made wrong in each place.
