//! Tests of the program `longhaul`: its commands, and the settings that it makes and takes back.
#![forbid(unsafe_code)]

#[cfg(test)]
mod commands;
#[cfg(test)]
mod switching;
