/** Finds and sends alerts while targets exist. Without targets, nothing is loaded. */
import type { Teller } from '../alerts/teller.ts'
import type { Alerts } from '../documents/active-alerts.ts'
import { once } from '../domain/once.ts'
import type { Log } from '../log.ts'
import type { AlertStore } from '../store/alert-store.ts'

export interface AlertWatchDeps {
  alerts: Pick<AlertStore, 'readTargets'>
  /** Loads the sender. */
  load(): Promise<{ teller: Teller; find(): Promise<Alerts> }>
  /** In a cluster: true if this server sends alerts. Null without a cluster. */
  isOnDuty: (() => boolean) | null
  log: Log
}

/** Also the shortest time before a retry. */
const TICK_MS = 5_000
const TICKS_PER_LOOK = 3

export function createAlertWatch({ alerts, load, isOnDuty, log }: AlertWatchDeps) {
  const loaded = once(load)
  let timer: ReturnType<typeof setInterval> | null = null
  let ticks = 0
  let looking: Promise<void> | null = null
  let isFailing = false

  const lookOnce = async () => {
    const { teller, find } = await loaded.get()
    await teller.look(await find())
  }
  /** Shared, so that checks don't queue behind a slow report. */
  const look = () => {
    looking ??= lookOnce().finally(() => {
      looking = null
    })
    return looking
  }
  const hasTargets = async () => (await alerts.readTargets()).length > 0
  /** True without targets. Other nodes may add targets. */
  const isIdle = async (): Promise<boolean> => {
    if (isOnDuty === null) return false
    if (isOnDuty()) return !(await hasTargets())
    await (await loaded.begun())?.teller.forget()
    return true
  }
  const tick = async (isLook: boolean): Promise<void> => {
    try {
      if (await isIdle()) return
      if (isLook) await look()
      if (timer !== null) await (await loaded.get()).teller.deliver()
      isFailing = false
    } catch (error) {
      // A stop may close the database during a check.
      if (timer !== null) note(error)
    }
  }
  const note = (error: unknown) => {
    if (!isFailing) log.warn('alert_failed', 'cannot look for alerts', { error: String(error) })
    isFailing = true
  }
  const stop = () => {
    if (timer !== null) clearInterval(timer)
    timer = null
  }

  return {
    /** Call at the start of the server, and after a change of targets, with an immediate check. Never throws. */
    async renew(isLook = false): Promise<void> {
      try {
        if (isOnDuty === null && !(await hasTargets())) return stop()
        timer ??= setInterval(() => void tick(++ticks % TICKS_PER_LOOK === 0), TICK_MS)
      } catch (error) {
        note(error)
      }
      if (isLook && timer !== null) await tick(true)
    },
    async close(): Promise<void> {
      stop()
      const begun = await loaded.begun()?.catch(() => null)
      begun?.teller.close()
    },
  }
}
