/**
 * Writes what an archive holds into a new folder, and nowhere else: the archive is somebody else's, and says where its entries go.
 * `tar.ts` and `zip.ts` read it, and give entries to this.
 */
import { mkdirSync, realpathSync, symlinkSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, join, normalize, sep } from 'node:path'
import { codeOf } from '../domain/error.ts'

/** What is wrong with an archive: the end of a sentence, such as `is cut off`. */
export class BadArchive extends Error {
  override name = 'BadArchive'
}

export interface Entry {
  /** As the archive has it. */
  name: string
  /** Of a file, what it may be used for, such as 0o755. */
  mode: number
}

const MOST_ENTRIES = 20_000
const MOST_NAME = 1_000

export class Unpacker {
  readonly #folder: string
  #bytesLeft: number
  #entries = 0
  /** Made last, so that nothing is written through one. */
  readonly #links = new Map<string, string>()

  /** @param folder empty. @param mostBytes of all files together. */
  constructor(folder: string, mostBytes: number) {
    this.#folder = folder
    this.#bytesLeft = mostBytes
  }

  folder({ name }: Pick<Entry, 'name'>): void {
    mkdirSync(join(this.#folder, this.#toPath(name)), { recursive: true, mode: 0o700 })
  }

  /** @param size what the archive says that it is: more or less of it is refused. */
  async file({ name, mode }: Entry, size: number, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    const path = this.#toPath(name)
    this.#bytesLeft -= size
    if (this.#bytesLeft < 0) throw new BadArchive('unpacks to more than the disk has room for')
    mkdirSync(dirname(join(this.#folder, path)), { recursive: true, mode: 0o700 })
    const handle = await this.#create(path, mode & 0o111 ? 0o755 : 0o644)
    try {
      let left = size
      for await (const piece of pieces) {
        left -= piece.byteLength
        if (left < 0) break
        await handle.writeFile(piece)
      }
      if (left !== 0) throw new BadArchive(`is damaged: ${path} in it is not as long as it says`)
    } finally {
      await handle.close()
    }
  }

  link({ name }: Pick<Entry, 'name'>, target: string): void {
    const path = this.#toPath(name)
    const isOutside = target.startsWith('/') || isAbove(normalize(join(dirname(path), target)))
    if (isOutside || target === '' || target.includes('\0'))
      throw new BadArchive(`has a link that leads out of it: ${path} to ${target}`)
    this.#links.set(path, target)
  }

  /** Makes the links. */
  finish(): void {
    const root = realpathSync(this.#folder)
    for (const path of this.#links.keys())
      for (let above = dirname(path); above !== '.'; above = dirname(above))
        if (this.#links.has(above)) throw new BadArchive(`has ${path} behind a link`)
    for (const [path, target] of this.#links) {
      mkdirSync(dirname(join(root, path)), { recursive: true, mode: 0o700 })
      try {
        symlinkSync(target, join(root, path))
      } catch (error) {
        throw codeOf(error) === 'EEXIST' ? toTwice(path) : error
      }
    }
    // Links that lead to links may go elsewhere than each of them says.
    for (const path of this.#links.keys())
      if (!isWithin(join(root, path), root))
        throw new BadArchive(`has a link that leads out of it, or nowhere: ${path}`)
  }

  #toPath(name: string): string {
    if (++this.#entries > MOST_ENTRIES) throw new BadArchive(`has more than ${MOST_ENTRIES} entries`)
    const path = normalize(name).replace(/\/+$/, '')
    if (
      name.length > MOST_NAME ||
      /[\0\\]/.test(name) ||
      name.startsWith('/') ||
      name.split('/').includes('..') ||
      path === ''
    )
      throw new BadArchive(`has an entry that would be written elsewhere: ${name.slice(0, 100)}`)
    return path
  }

  async #create(path: string, mode: number): Promise<FileHandle> {
    try {
      return await open(join(this.#folder, path), 'wx', mode)
    } catch (error) {
      throw codeOf(error) === 'EEXIST' ? toTwice(path) : error
    }
  }
}

const toTwice = (path: string) => new BadArchive(`has ${path} twice`)

const isAbove = (path: string) => path === '..' || path.startsWith(`..${sep}`)

function isWithin(path: string, root: string): boolean {
  try {
    return realpathSync(path).startsWith(`${root}${sep}`)
  } catch {
    return false
  }
}
