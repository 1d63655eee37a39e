/**
 * Unpacks an untrusted `.tar.gz` with the system's `tar` into an empty folder: without permissions, owners, or times,
 * limited in size, and with nothing that points outside the folder.
 */
import { chmodSync, createReadStream, lstatSync, readdirSync, realpathSync } from 'node:fs'
import { join, sep } from 'node:path'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { codeOf } from '../domain/error.ts'

/** Completes a sentence that begins with the archive's path, such as `is not a .tar.gz file`. */
export class BadArchive extends Error {
  override name = 'BadArchive'
}

const MAX_ENTRIES = 20_000

/** @param mostBytes unpacked size limit. @throws a BadArchive; files already written stay in the folder. */
export async function unpack(path: string, folder: string, mostBytes: number): Promise<void> {
  const program = Bun.which('tar')
  if (program === null) throw new BadArchive("can't be unpacked: tar is not on the PATH")
  // `-k` refuses existing names, so nothing is written through an earlier link.
  const tar = Bun.spawn([program, '-x', '-k', '-m', '--no-same-owner', '--no-same-permissions', '-f', '-'], {
    ...{ cwd: folder, stdin: 'pipe', stdout: 'ignore', stderr: 'pipe' },
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
  })
  const said = tar.stderr.text()
  try {
    await feed(path, mostBytes, tar.stdin)
  } catch (error) {
    tar.kill('SIGKILL')
    await tar.exited
    throw error
  }
  const code = await tar.exited
  requireTaken(code, await said)
  requireWithin(folder, mostBytes)
}

async function feed(path: string, mostBytes: number, tar: Bun.FileSink): Promise<void> {
  // Allows for headers and padding: one or two 512-byte blocks per entry.
  let left = mostBytes + MAX_ENTRIES * 1_024
  // The callback is empty because the loop below throws the error too.
  const bytes = pipeline(createReadStream(path), createGunzip(), () => {})
  try {
    for await (const piece of bytes) {
      left -= piece.length
      if (left < 0) throw tooLarge()
      tar.write(piece)
      await tar.flush()
    }
    await tar.end()
  } catch (error) {
    if (/^(Z_|ERR_ZLIB)/.test(codeOf(error))) throw new BadArchive('is not a valid .tar.gz file')
    // tar exited early. Its own message has the reason.
    if (codeOf(error) !== 'EPIPE') throw error
  } finally {
    bytes.destroy()
  }
}

function requireTaken(code: number, said: string): void {
  if (/removing leading|member name contains|path contains/i.test(said))
    throw new BadArchive('has an entry outside its folder')
  if (code === 0) return
  if (/no space left|quota/i.test(said)) throw new BadArchive("doesn't fit on the disk")
  throw new BadArchive(`can't be unpacked: ${said.trim().split('\n')[0]?.slice(0, 300) || `tar exited with ${code}`}`)
}

function requireWithin(folder: string, mostBytes: number): void {
  const root = realpathSync(folder)
  let [bytes, entries] = [mostBytes, MAX_ENTRIES]
  const walk = (within: string) => {
    for (const name of readdirSync(within)) {
      const path = join(within, name)
      const found = lstatSync(path)
      if (--entries < 0) throw new BadArchive(`has more than ${MAX_ENTRIES} entries`)
      if (found.isSymbolicLink()) {
        if (!leadsInto(path, root)) throw new BadArchive(`has a link that is broken or points outside: ${name}`)
      } else if (found.isDirectory()) {
        chmodSync(path, 0o700)
        walk(path)
      } else if (!found.isFile() || found.nlink > 1)
        throw new BadArchive(`has an entry that is not a file, folder, or symbolic link: ${name}`)
      else {
        bytes -= found.size
        if (bytes < 0) throw tooLarge()
        chmodSync(path, found.mode & 0o111 ? 0o755 : 0o644)
      }
    }
  }
  walk(root)
}

function leadsInto(link: string, root: string): boolean {
  try {
    return realpathSync(link).startsWith(`${root}${sep}`)
  } catch {
    return false
  }
}

const tooLarge = () => new BadArchive('needs more disk space than is free')
