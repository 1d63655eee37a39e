/** The secret of a key. */
import { describe, expect, test } from 'bun:test'
import { hashToken, maskToken, mintToken } from '../../src/keys/token.ts'

describe('a minted key', () => {
  test('has the fixed form and a valid checksum', () => {
    const token = mintToken()
    expect(token).toMatch(/^sk-tg-[A-Za-z0-9]{38}$/)
    expect(token.slice(38)).toBe(toBase62(Bun.hash.crc32(token.slice(6, 38))))
  })

  test('is unique, and uses every character about equally often', () => {
    const tokens = Array.from({ length: 2_000 }, mintToken)
    expect(new Set(tokens).size).toBe(2_000)
    const counts = new Map<string, number>()
    for (const token of tokens)
      for (const character of token.slice(6, 38)) counts.set(character, (counts.get(character) ?? 0) + 1)
    expect(counts.size).toBe(62)
    // 1,032 expected of each; a bias by modulo would give eight of them a quarter more.
    expect(Math.max(...counts.values())).toBeLessThan(1_200)
    expect(Math.min(...counts.values())).toBeGreaterThan(870)
  })
})

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const toBase62 = (value: number): string =>
  Array.from({ length: 6 }, (_, place) => DIGITS[Math.floor(value / 62 ** (5 - place)) % 62]).join('')

describe('the stored and shown part of a key', () => {
  test('is the SHA-256 of the whole key, in hex', () => {
    expect(hashToken('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  })

  test('is its last four characters, and never more of any other text', () => {
    const token = mintToken()
    expect(maskToken(token)).toBe(`sk-tg-…${token.slice(-4)}`)
    expect(maskToken('sk-proj-somebody-elses-key')).toBe('…-key')
    expect(maskToken('hunter2')).toBe('…')
    expect(maskToken(`${'x'.repeat(30)}\u001b[2J`)).toBe('…')
  })
})
