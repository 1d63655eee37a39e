/**
 * Unpacks a `.tar.gz` by the system's own `tar` into an empty folder. The archive is somebody else's: `tar` is given no rights, owners or
 * times to set, no more bytes than there is room for, and of what it has written nothing may lead out of the folder.
 */
import { chmodSync, createReadStream, lstatSync, readdirSync, realpathSync } from 'node:fs'
import { join, sep } from 'node:path'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { codeOf } from '../domain/error.ts'

/** What is wrong with an archive: the end of a sentence, such as `is cut off`. */
export class BadArchive extends Error {
  override name = 'BadArchive'
}

const MAX_ENTRIES = 20_000

/** @param mostBytes that it may unpack to. Throws a BadArchive; what it has written by then stays in the folder. */
export async function unpack(path: string, folder: string, mostBytes: number): Promise<void> {
  const program = Bun.which('tar')
  if (program === null) throw new BadArchive('cannot be unpacked: there is no tar on the PATH')
  // A name that is there already is refused, so nothing is written through a link that came first.
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
  // Names and padding take a block or two of each entry.
  let left = mostBytes + MAX_ENTRIES * 1_024
  // An error of one ends the other; whoever reads hears of it.
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
    if (/^(Z_|ERR_ZLIB)/.test(codeOf(error))) throw new BadArchive('is no .tar.gz, or is damaged')
    // It has seen enough, and says itself why.
    if (codeOf(error) !== 'EPIPE') throw error
  } finally {
    bytes.destroy()
  }
}

/** Some leave out of a name what leads elsewhere, and say so. */
function requireTaken(code: number, said: string): void {
  if (/removing leading|member name contains|path contains/i.test(said))
    throw new BadArchive('has an entry that would be written elsewhere')
  if (code === 0) return
  if (/no space left|quota/i.test(said)) throw new BadArchive('does not fit on the disk')
  throw new BadArchive(`cannot be unpacked: ${said.trim().split('\n')[0]?.slice(0, 300) || `tar ended with ${code}`}`)
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
        if (!leadsInto(path, root)) throw new BadArchive(`has a link that leads out of it, or nowhere: ${name}`)
      } else if (found.isDirectory()) {
        chmodSync(path, 0o700)
        walk(path)
      } else if (!found.isFile() || found.nlink > 1)
        throw new BadArchive(`has an entry that is neither file, folder nor link: ${name}`)
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

const tooLarge = () => new BadArchive('unpacks to more than the disk has room for')
