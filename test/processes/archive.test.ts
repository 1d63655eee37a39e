/** Archives from third parties: they are unpacked into their folder, or rejected completely. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { unpack } from '../../src/processes/archive.ts'
import { makeTar, makeTarGz, type Packed } from '../support/archives.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const folder = forEachTest(createTestFolder)
beforeEach(() => {
  mkdirSync(join(folder.path, 'out'))
})

async function take(bytes: Uint8Array, mostBytes = 1_000_000): Promise<void> {
  writeFileSync(join(folder.path, 'archive'), bytes)
  await unpack(join(folder.path, 'archive'), join(folder.path, 'out'), mostBytes)
}
const LONG = `${'deep/'.repeat(30)}file`

describe('a .tar.gz', () => {
  test('becomes files, folders, and links', async () => {
    await take(
      makeTarGz([
        { name: 'build/', type: '5' },
        { name: './build/llama-server', content: '#!/bin/sh\n', mode: 0o100755 },
        { name: 'build/lib.so.1', content: 'x'.repeat(100_000) },
        { name: 'build/lib.so', target: 'lib.so.1' },
        { name: LONG, content: 'far' },
        { name: 'empty', content: '' },
      ]),
    )
    const out = join(folder.path, 'out')
    expect(readFileSync(join(out, 'build/lib.so'), 'utf8')).toBe('x'.repeat(100_000))
    expect(readlinkSync(join(out, 'build/lib.so'))).toBe('lib.so.1')
    expect(readFileSync(join(out, LONG), 'utf8')).toBe('far')
    expect(statSync(join(out, 'empty')).size).toBe(0)
    // The umask decides the permissions of other users.
    expect(statSync(join(out, 'build/llama-server')).mode & 0o100).toBe(0o100)
    expect(statSync(join(out, 'build/lib.so.1')).mode & 0o111).toBe(0)
  })

  test.each<[what: string, entries: Packed[], sentence: string]>([
    ['a path upwards', [{ name: '../evil', content: 'x' }], 'has an entry outside its folder'],
    ['a path upwards within', [{ name: 'a/../../evil', content: 'x' }], 'has an entry outside its folder'],
    ['a full path', [{ name: '/tmp/evil', content: 'x' }], 'has an entry outside its folder'],
    ['a link upwards', [{ name: 'a', target: '../..' }], 'has a link that is broken or points outside'],
    ['a link to a full path', [{ name: 'a', target: '/etc' }], 'has a link that is broken or points outside'],
    ['a link to nowhere', [{ name: 'a', target: 'none' }], 'is broken or points outside'],
    [
      'links in a ring',
      [
        { name: 'a', target: 'b' },
        { name: 'b', target: 'a' },
      ],
      'is broken or points outside',
    ],
    [
      'links that lead out together',
      [
        { name: 'x', target: '.' },
        { name: 'a', target: 'x/..' },
        { name: 'a/evil', target: 'x' },
      ],
      "can't be unpacked",
    ],
    [
      'links that lead out one by the other',
      [
        { name: 'd/e/f', content: 'x' },
        { name: 'x', target: 'd' },
        { name: 'a', target: 'x/../..' },
      ],
      'is broken or points outside',
    ],
    [
      'a file twice',
      [
        { name: 'a', content: 'x' },
        { name: './a', content: 'y' },
      ],
      "can't be unpacked",
    ],
    [
      'a file below a file',
      [
        { name: 'a', content: 'x' },
        { name: 'a/b', content: 'y' },
      ],
      "can't be unpacked",
    ],
    [
      'more than there is room for',
      [{ name: 'a', content: 'x'.repeat(1_000_001) }],
      'needs more disk space than is free',
    ],
  ])('with %s is refused, and nothing is written beside its folder', async (_what, entries, sentence) => {
    await expect(take(makeTarGz(entries))).rejects.toThrow(sentence)
    expect(readdirSync(folder.path).toSorted()).toEqual(['archive', 'out'])
  })

  test('that is truncated or damaged is refused', async () => {
    const whole = makeTarGz([{ name: 'a', content: 'some text '.repeat(1_000) }])
    for (const length of [3, 30, Math.floor(whole.length / 2), whole.length - 30])
      await expect(take(whole.subarray(0, length))).rejects.toHaveProperty('name', 'BadArchive')
  })
})

test('a file of another format is refused, and so is a gzip without a tar', async () => {
  await expect(take(Buffer.from('hello'))).rejects.toThrow('is not a valid .tar.gz file')
  await expect(take(Buffer.alloc(0))).rejects.toThrow('is not a valid .tar.gz file')
  await expect(take(gzipSync(Buffer.alloc(2_000, 'x')))).rejects.toThrow("can't be unpacked")
})

test('a device, a hard link and an entry without a size are refused', async () => {
  await expect(take(makeTarGz([{ name: 'a', type: '3' }]))).rejects.toThrow('is not a file, folder, or symbolic link')
  const linked = [
    { name: 'b', content: 'x' },
    { name: 'a', type: '1', target: 'b' },
  ]
  await expect(take(makeTarGz(linked))).rejects.toHaveProperty('name', 'BadArchive')
  for (const target of ['b', '/etc/passwd', '../archive'])
    await expect(take(makeTarGz([{ name: 'c', type: '1', target }]))).rejects.toHaveProperty('name', 'BadArchive')
  const endless = makeTar([{ name: 'a', content: 'x', size: 900_000 }])
  await expect(take(gzipSync(endless))).rejects.toHaveProperty('name', 'BadArchive')
})
