/** Unpacks an archive, tar.gz or zip by what is in it, into an empty folder. */
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { codeOf } from '../domain/error.ts'
import { untar } from './tar.ts'
import { BadArchive, Unpacker } from './unpacker.ts'
import { unzip } from './zip.ts'

/** @param mostBytes that it may unpack to. Throws a BadArchive; what it has written by then stays in the folder. */
export async function unpack(path: string, folder: string, mostBytes: number): Promise<void> {
  const unpacker = new Unpacker(folder, mostBytes)
  const [first, second] = await readStart(path)
  try {
    if (first === 0x1f && second === 0x8b) await untarZipped(path, unpacker)
    else if (first === 0x50 && second === 0x4b) await unzip(path, unpacker)
    else throw new BadArchive('is neither a .tar.gz nor a .zip')
    unpacker.finish()
  } catch (error) {
    if (/^(Z_|ERR_ZLIB)/.test(codeOf(error))) throw new BadArchive('is damaged: it cannot be unpacked')
    if (codeOf(error) === 'ENOSPC') throw new BadArchive('does not fit on the disk')
    // Names that a file and a folder have.
    if (/^(EEXIST|ENOTDIR|EISDIR|ENAMETOOLONG)$/.test(codeOf(error)))
      throw new BadArchive('has names that exclude each other')
    throw error
  }
}

async function untarZipped(path: string, unpacker: Unpacker): Promise<void> {
  // An error of one ends the other; `untar` hears of it.
  const bytes = pipeline(createReadStream(path), createGunzip(), () => {})
  try {
    await untar(bytes, unpacker)
  } finally {
    // Behind the end of an archive there may be more.
    bytes.destroy()
  }
}

async function readStart(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r')
  try {
    const { buffer } = await file.read(new Uint8Array(2), 0, 2, 0)
    return buffer
  } finally {
    await file.close()
  }
}
