//! Tokens: what opens a task or the API. Drawn here, shown once to whoever asked, and kept only as a keyed hash.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// 128 random bits as 32 lower-case hex characters. `Debug` and `Display` do not show it; [`Token::reveal`] does.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub const LENGTH: usize = 32;

    pub fn draw(random: &dyn SecureRandom) -> Result<Token, String> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes).map_err(|_| {
            "The operating system gave no random numbers, so no token can be made; check that \
                /dev/urandom can be read."
        })?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// `None` when the text has not the shape of a token, so that a file with something else in it is not taken for
    /// one.
    pub fn parse(text: &str) -> Option<Token> {
        let right = text.len() == Token::LENGTH && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        right.then(|| Token(text.to_owned()))
    }

    /// The secret itself. Named so that a reader sees where it leaves: URLs handed to its owner, never logs.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What is stored of a token. Without the key of this run it says nothing about the token.
#[derive(Clone, Copy)]
pub struct TokenHash(hmac::Tag);

/// The key of this run and the source of new tokens.
pub struct Tokens {
    key: hmac::Key,
    random: SystemRandom,
}

impl Tokens {
    pub fn new() -> Result<Tokens, String> {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(|_| {
            "The operating system gave no random numbers, so tokens cannot be kept safely; check that /dev/urandom \
                can be read."
        })?;
        Ok(Tokens { key, random })
    }

    pub fn draw(&self) -> Result<Token, String> {
        Token::draw(&self.random)
    }

    pub fn hash(&self, token: &Token) -> TokenHash {
        TokenHash(hmac::sign(&self.key, token.reveal().as_bytes()))
    }

    /// In constant time, whatever the shape of the text.
    pub fn matches(&self, presented: &str, hash: &TokenHash) -> bool {
        hmac::verify(&self.key, presented.as_bytes(), hash.0.as_ref()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_128_bits_of_lower_case_hex_and_never_the_same() {
        let tokens = Tokens::new().unwrap();
        let (one, two) = (tokens.draw().unwrap(), tokens.draw().unwrap());
        assert_eq!(Token::parse(one.reveal()), Some(one.clone()));
        assert_ne!(one, two);
    }

    #[test]
    fn printing_a_token_does_not_show_it() {
        let token = Tokens::new().unwrap().draw().unwrap();
        assert!(!format!("{token:?}").contains(token.reveal()));
    }

    #[test]
    fn a_hash_fits_its_token_only_and_under_its_key_only() {
        let (tokens, others) = (Tokens::new().unwrap(), Tokens::new().unwrap());
        let (one, two) = (tokens.draw().unwrap(), tokens.draw().unwrap());
        assert!(tokens.matches(one.reveal(), &tokens.hash(&one)));
        assert!(!tokens.matches(two.reveal(), &tokens.hash(&one)));
        assert!(!tokens.matches("", &tokens.hash(&one)));
        assert!(!tokens.matches(one.reveal(), &others.hash(&one)));
    }

    #[test]
    fn other_shapes_are_no_tokens() {
        for text in ["", "abc", &"g".repeat(32), &"A".repeat(32), &"a".repeat(33)] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }
}
