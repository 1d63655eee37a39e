/** Replaces a program by a rename in its own folder, so that it is always complete: the old one, or the new one. */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  createReadStream,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { createGunzip } from 'node:zlib'
import { isAlive, syncPath } from '../../store/files.ts'
import { CommandError } from '../command-error.ts'
import { type ReleaseFile, read, unusable } from './release-index.ts'

const MAX_PROGRAM_BYTES = 2 ** 30
const BLOCK = 512

/** The new program, unpacked next to the old one; removed unless it replaces it. */
export interface Candidate extends Disposable {
  path: string
  /** Keeps the old program as `PROGRAM.previous`, and returns that path. */
  replace(): string
}

/** @throws `update_unusable`, or the system's error. */
export async function fetchCandidate(
  program: string,
  file: ReleaseFile,
  url: URL,
  onBytes: (done: number, of: number) => void,
): Promise<Candidate> {
  const { mode, uid, gid, ino } = statSync(program)
  removeLeftovers(program)
  const path = `${program}.update-${process.pid}`
  const archive = `${path}.gz`
  const remove = () => {
    for (const ending of ['', '.gz', '.previous']) rmSync(`${path}${ending}`, { force: true })
  }
  try {
    await download(archive, file, url, onBytes)
    await unpack(archive, path)
    rmSync(archive)
    if (process.getuid?.() === 0) chownSync(path, uid, gid)
    chmodSync(path, mode & 0o7777)
  } catch (error) {
    remove()
    throw error
  }
  return { path, replace: () => replace(program, path, ino), [Symbol.dispose]: remove }
}

async function download(
  path: string,
  { name, bytes, sha256 }: ReleaseFile,
  url: URL,
  onBytes: (done: number, of: number) => void,
): Promise<void> {
  const hash = createHash('sha256')
  let done = 0
  await write(path, async (put) => {
    for await (const piece of read(url, bytes)) {
      hash.update(piece)
      put(piece)
      done += piece.length
      onBytes(done, bytes)
    }
  })
  const found = hash.digest('hex')
  if (done !== bytes || found !== sha256)
    throw unusable(`Checksum mismatch for ${name}: its SHA-256 is ${found}, expected ${sha256}.`)
}

/** The program is the archive's first entry. */
async function unpack(archive: string, path: string): Promise<void> {
  let head = Buffer.alloc(0)
  let left = -1
  await write(path, async (put) => {
    for await (const piece of createReadStream(archive).pipe(createGunzip())) {
      let bytes: Buffer = piece
      if (left === -1) {
        head = Buffer.concat([head, bytes])
        if (head.length < BLOCK) continue
        left = Number.parseInt(head.toString('latin1', 124, 136), 8)
        if (!/^tollgate(\.exe)?\0/.test(head.toString('latin1', 0, 100)) || !(left <= MAX_PROGRAM_BYTES)) break
        bytes = head.subarray(BLOCK)
      }
      put(bytes.subarray(0, left))
      left -= Math.min(left, bytes.length)
      if (left === 0) break
    }
  })
  if (left !== 0) throw unusable("The release's archive doesn't begin with a program.")
}

/** The file is complete on disk when this returns. */
async function write(path: string, work: (put: (bytes: Uint8Array) => void) => Promise<void>): Promise<void> {
  const file = openSync(path, 'wx', 0o600)
  try {
    await work((bytes) => {
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at)
    })
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** @param ino of the program that the update began with. */
function replace(program: string, path: string, ino: number): string {
  const previous = `${program}.previous`
  const requireSame = () => {
    if (statSync(program).ino !== ino)
      throw new CommandError('update_failed', `Another update has replaced ${program} in the meantime.`)
  }
  if (process.platform === 'win32') {
    // Windows can rename a running program, but not replace it.
    requireSame()
    rmSync(previous, { force: true })
    renameSync(program, previous)
    renameSync(path, program)
    return previous
  }
  const link = `${path}.previous`
  try {
    linkSync(program, link)
  } catch {
    // Another user's file, or a file system without hard links.
    copyFileSync(program, link)
  }
  // The copy is of the old program only if no other update has replaced it meanwhile.
  requireSame()
  renameSync(link, previous)
  renameSync(path, program)
  syncPath(dirname(program))
  return previous
}

/** Temporary files of an update, with its process ID. */
const LEFTOVER = /^\.update-(\d+)(?:\.gz|\.previous)?$/

/** Removes files of updates that were killed. */
function removeLeftovers(program: string): void {
  const own = basename(program)
  for (const name of readdirSync(dirname(program))) {
    const [, pid] = (name.startsWith(own) && LEFTOVER.exec(name.slice(own.length))) || []
    if (pid === undefined) continue
    if (Number(pid) === process.pid || !isAlive(Number(pid))) rmSync(join(dirname(program), name), { force: true })
  }
}
