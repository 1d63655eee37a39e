/**
 * Ad-hoc code signatures of Mach-O executables: a hash per page, as `codesign --sign -` writes them. macOS kills a program whose
 * signature doesn't match, and Bun's own no longer does once a program is added to it; for ARM, Bun replaces it.
 */
import { createHash } from 'node:crypto'

const PAGE = 4_096
const HASH_BYTES = 32
/** Load commands. */
const [SEGMENT, SIGNATURE] = [0x19, 0x1d]
const [SUPER_BLOB, CODE_DIRECTORY] = [0xfade0cc0, 0xfade0c02]
/** Ad hoc, and replaceable. */
const FLAGS = 0x20002
/** Version 0x20400, the first with the executable's segment. */
const DIRECTORY_BYTES = 88

/** Positions of load commands. */
interface Commands {
  text: number
  linkEdit: number
  signature: number
}

function findCommands(bytes: Buffer): Commands | null {
  const found: Partial<Commands> = {}
  let at = 32
  for (let left = bytes.readUInt32LE(16); left > 0 && at + 16 <= bytes.length; left--) {
    const command = bytes.readUInt32LE(at)
    const name = bytes.toString('latin1', at + 8, at + 24).replace(/\0.*/s, '')
    if (command === SIGNATURE) found.signature = at
    if (command === SEGMENT && name === '__TEXT') found.text = at
    if (command === SEGMENT && name === '__LINKEDIT') found.linkEdit = at
    at += bytes.readUInt32LE(at + 4)
  }
  const { text, linkEdit, signature } = found
  return text && linkEdit && signature ? { text, linkEdit, signature } : null
}

function* toHashes(code: Buffer): Generator<Buffer> {
  for (let at = 0; at < code.length; at += PAGE)
    yield createHash('sha256')
      .update(code.subarray(at, at + PAGE))
      .digest()
}

/** Whether the hash of every page matches. */
export function hasValidSignature(bytes: Buffer): boolean {
  const commands = findCommands(bytes)
  if (commands === null) return false
  const start = bytes.readUInt32LE(commands.signature + 8)
  if (start + 20 > bytes.length || bytes.readUInt32BE(start) !== SUPER_BLOB) return false
  const at = start + bytes.readUInt32BE(start + 16)
  if (at + DIRECTORY_BYTES > bytes.length || bytes.readUInt32BE(at) !== CODE_DIRECTORY) return false
  const [slots, limit] = [bytes.readUInt32BE(at + 28), bytes.readUInt32BE(at + 32)]
  if (limit !== start || slots !== Math.ceil(limit / PAGE)) return false
  const hashes = Buffer.concat([...toHashes(bytes.subarray(0, limit))])
  const own = at + bytes.readUInt32BE(at + 16)
  return bytes.subarray(own, own + hashes.length).equals(hashes)
}

/** Replaces the signature, which must be at the end of the file. */
export function signAdHoc(bytes: Buffer): Buffer {
  const commands = findCommands(bytes)
  if (commands === null) throw new Error('The executable has no room for a code signature.')
  const limit = bytes.readUInt32LE(commands.signature + 8)
  const code = Buffer.from(bytes.subarray(0, limit))
  const identifier = Buffer.from('tollgate\0')
  const slots = Math.ceil(limit / PAGE)
  const hashesAt = DIRECTORY_BYTES + identifier.length
  const directoryBytes = hashesAt + slots * HASH_BYTES
  const signature = Buffer.alloc(20 + directoryBytes)

  code.writeUInt32LE(signature.length, commands.signature + 12)
  const linkEditBytes = limit + signature.length - Number(code.readBigUInt64LE(commands.linkEdit + 40))
  code.writeBigUInt64LE(BigInt(Math.ceil(linkEditBytes / PAGE) * PAGE), commands.linkEdit + 32)
  code.writeBigUInt64LE(BigInt(linkEditBytes), commands.linkEdit + 48)

  const put = (at: number, ...words: number[]) =>
    words.forEach((word, index) => {
      signature.writeUInt32BE(word, at + 4 * index)
    })
  // One blob: a code directory.
  put(0, SUPER_BLOB, signature.length, 1, 0, 20)
  put(20, CODE_DIRECTORY, directoryBytes, 0x20400, FLAGS, hashesAt, DIRECTORY_BYTES, 0, slots, limit)
  // SHA-256, and the page size as a power of 2.
  signature.set([HASH_BYTES, 2, 0, Math.log2(PAGE)], 56)
  // Where __TEXT is, and that this is a program.
  code.copy(signature, 20 + 64, commands.text + 40, commands.text + 48)
  code.copy(signature, 20 + 72, commands.text + 48, commands.text + 56)
  signature.subarray(20 + 64, 20 + 72).reverse()
  signature.subarray(20 + 72, 20 + 80).reverse()
  signature.writeBigUInt64BE(1n, 20 + 80)
  identifier.copy(signature, 20 + DIRECTORY_BYTES)
  Buffer.concat([...toHashes(code)]).copy(signature, 20 + hashesAt)
  return Buffer.concat([code, signature])
}
