/** Failures of a crash test's data folder: another process that locks the database, and a full disk. */
import { Database } from 'bun:sqlite'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Holds the database's write lock for `ms`. Waits for it first, as long as it takes. */
export async function holdLock(data: string, ms: number): Promise<void> {
  const database = new Database(join(data, 'tollgate.db'), { readwrite: true })
  try {
    for (;;) {
      try {
        database.run('BEGIN IMMEDIATE')
        break
      } catch {
        await Bun.sleep(1)
      }
    }
    await Bun.sleep(ms)
    database.run('ROLLBACK')
  } finally {
    database.close()
  }
}

export interface SmallDisk {
  folder: string
  /** Fills all free space. */
  fill(): Promise<void>
  /** Frees the space. */
  free(): void
  unmount(): void
}

/** Mounts a disk in memory at `folder`, or returns why this machine doesn't allow it. */
export function mountSmallDisk(folder: string, megabytes: number): SmallDisk | string {
  mkdirSync(folder, { recursive: true })
  const mount = ['mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder]
  if (!Bun.which('mount')) return 'there is no mount command'
  const { exitCode, stderr } = Bun.spawnSync(mount)
  if (exitCode !== 0) return stderr.toString().trim()
  const ballast = join(folder, 'ballast')
  return {
    folder,
    async fill() {
      const handle = await open(ballast, 'a')
      try {
        for (const size of [1024 * 1024, 4096]) await appendUntilFull(handle, Buffer.alloc(size, 'x'))
      } finally {
        await handle.close()
      }
    },
    free: () => rmSync(ballast, { force: true }),
    unmount: () => void Bun.spawnSync(['umount', '-l', folder]),
  }
}

async function appendUntilFull(handle: Awaited<ReturnType<typeof open>>, bytes: Buffer): Promise<void> {
  try {
    for (;;) await handle.appendFile(bytes)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
  }
}

/** Why no small disk can be mounted on this machine, or null. For `test.skipIf`. */
export function whyNoSmallDisk(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-mount-'))
  const disk = mountSmallDisk(folder, 1)
  if (typeof disk !== 'string') disk.unmount()
  rmSync(folder, { recursive: true, force: true })
  return typeof disk === 'string' ? disk : null
}
