/**
 * Ends what has left the process group that it was started in, and by that its guard, as daemons do: it is known by a variable of the
 * environment that it was started with. On Linux alone, which tells it (proc_pid_environ(5)).
 */
import { readdir, readFile } from 'node:fs/promises'

/** What is ended is looked for anew so often, since it may be starting something just then. */
const MOST_LOOKS = 10
const LOOK_MS = 10

/**
 * Resolves to how many processes were ended. Never throws.
 * @param leastLooks 2 where one may just be becoming another program: it tells no environment then.
 */
export async function endLeftovers(variable: string, value: string, leastLooks = 1): Promise<number> {
  const ended = new Set<number>()
  for (let looks = 0; looks < MOST_LOOKS; looks++) {
    if (looks > 0) await Bun.sleep(LOOK_MS)
    const found = await findBy(`${variable}=${value}`)
    if (found.length === 0 && looks + 1 >= leastLooks) break
    for (const pid of found) if (end(pid)) ended.add(pid)
  }
  return ended.size
}

async function findBy(word: string): Promise<number[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const found: number[] = []
  for (const pid of pids) {
    if (pid === process.pid) continue
    // Those of other users are not told, and those that have ended have none.
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
    if (environment.split('\0').includes(word)) found.push(pid)
  }
  return found
}

function end(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL')
  } catch {
    return false
  }
}
