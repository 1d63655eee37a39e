/** Runs another program in the place of this command: with its terminal, its variables and its signals. */
import { constants } from 'node:os'
import type { Environment } from '../domain/snapshot.ts'

/** Numbers of signals by their names. */
const signals: ReadonlyMap<string | number, number> = new Map(Object.entries(constants.signals))

/** Resolves to its exit code, 128 and the signal's number where one ended it; null where there is no such program. */
export async function runProgramAs(
  command: string,
  args: readonly string[],
  environment: Environment,
): Promise<number | null> {
  const path = Bun.which(command, environment.PATH === undefined ? {} : { PATH: environment.PATH })
  if (path === null) return null
  const child = Bun.spawn([path, ...args], { env: { ...environment }, stdio: ['inherit', 'inherit', 'inherit'] })
  // The terminal sends it ^C itself; what somebody sends to this process alone is handed on.
  const ignore = () => {}
  const pass = (signal: NodeJS.Signals) => child.kill(signal)
  process.on('SIGINT', ignore).on('SIGTERM', pass).on('SIGHUP', pass)
  try {
    const code = await child.exited
    const { signalCode } = child
    return signalCode === null ? code : 128 + (signals.get(signalCode) ?? 0)
  } finally {
    process.off('SIGINT', ignore).off('SIGTERM', pass).off('SIGHUP', pass)
  }
}
