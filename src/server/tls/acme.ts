/**
 * Certificates from an authority, stored in the data folder and renewed when a third of their lifetime is left. Until
 * the first one arrives, a temporary certificate is served, so a start doesn't wait for the authority.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../domain/error.ts'
import { asObject, asText } from '../../domain/json.ts'
import { DAY_MS, HOUR_MS } from '../../domain/time.ts'
import type { Log } from '../../log.ts'
import { putFile } from '../../store/files.ts'
import { isNearEnd } from '../findings.ts'
import { type AcmeDeps, AcmeError, orderCertificate } from './acme-client.ts'
import { BadCertificate, type Certificate, toCertificate, toState } from './certificates.ts'
import { makeKey, toSelfSigned } from './der.ts'

export interface IssuerDeps {
  domains: readonly string[]
  /** URL of the authority. */
  directory: string
  dataFolder: string
  /** Wall clock, ms. */
  now(): number
  log: Log
  fetch?: AcmeDeps['fetch']
  sleep?: AcmeDeps['sleep']
}

export interface Issued {
  name: string
  certificate: Certificate
  /** Why a certificate is missing or can't be renewed; null without a problem. */
  problem: string | null
}

export interface Issuer {
  issued: readonly Issued[]
  /** Response of a validation in progress, by token; null if unknown. */
  challengeOf(token: string): string | null
  /** @param use serves a new certificate. */
  start(use: (issued: Issued, certificate: Certificate) => Promise<void>): void
  /** Orders missing or due certificates, without waiting after failures. Never throws. */
  order(): Promise<void>
  stop(): void
}

const MINUTE_MS = 60_000
const LOOK_MS = MINUTE_MS
/** Waits after each failure in a row. Let's Encrypt allows five failed validations per hour and name. */
const WAITS_MS = [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 12 * HOUR_MS]
/** Keeps a server that restarts in a loop below this limit. */
const MAX_WAIT_AT_START_MS = 15 * MINUTE_MS
/** Wait after a success, whatever the clock says: authorities limit certificates per name and week. */
const WAIT_AFTER_MS = DAY_MS
const TEMPORARY_MS = 90 * DAY_MS
const RENEW_SHARE = 1 / 3

const PRIVATE = { mode: 0o600 }

interface Attempts {
  /** URL of the authority. */
  directory: string
  failures: number
  lastMs: number
}

export function createIssuer(deps: IssuerDeps): Issuer {
  const { domains, directory, dataFolder, now, log } = deps
  const folder = join(dataFolder, 'tls')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const stopping = new AbortController()
  const challenges = new Map<string, string>()
  const attempts = readAttempts(join(folder, 'attempts.json'))
  const temporary = new WeakSet<Certificate>()
  /** Certificates of another authority, used until this authority issues one. */
  const others = new WeakSet<Certificate>()
  const find = (name: string): Certificate | null => {
    const found = readStored(fileOf(folder, name), name, now())
    if (found && found.directory !== directory) others.add(found.certificate)
    return found?.certificate ?? null
  }
  const issued = domains.map((name): Issued => {
    const certificate = find(name)
    if (certificate !== null) return { name, certificate, problem: null }
    const instead = makeTemporary(name, now())
    temporary.add(instead)
    return { name, certificate: instead, problem: `${name} has no certificate yet; ordering one. ${UNTRUSTED}` }
  })
  const nextMs = new Map(
    [...attempts].flatMap(([name, { failures, lastMs, ...of }]) =>
      of.directory === directory ? [[name, lastMs + Math.min(waitOf(failures), MAX_WAIT_AT_START_MS)]] : [],
    ),
  )
  let use: Parameters<Issuer['start']>[0] = async () => {}

  const isWanted = (certificate: Certificate): boolean => {
    const { fromMs, expiresMs } = certificate
    const isOld = now() > expiresMs - (expiresMs - fromMs) * RENEW_SHARE
    return temporary.has(certificate) || others.has(certificate) || isOld
  }
  const isDue = ({ certificate, name }: Issued, isForced: boolean): boolean => {
    const waitMs = (nextMs.get(name) ?? 0) - now()
    // A clock that was set back must not delay it further.
    return isWanted(certificate) && (isForced || waitMs <= 0 || waitMs > 2 * DAY_MS)
  }
  const orderOne = async (one: Issued): Promise<void> => {
    const { name } = one
    try {
      // If an issued certificate isn't in use, use it instead of ordering again.
      const kept = find(name)
      if (kept && !isWanted(kept)) return await use(one, kept)
      const key = makeKey()
      const cert = await orderCertificate(name, key, {
        directory,
        accountKey: readAccountKey(folder),
        fetch: (url, { signal, ...init }) =>
          (deps.fetch ?? fetch)(url, {
            ...init,
            signal: AbortSignal.any([stopping.signal, ...(signal ? [signal] : [])]),
          }),
        sleep: deps.sleep ?? ((ms) => sleepUntil(ms, stopping.signal)),
        publish(token, text) {
          challenges.set(token, text)
          return () => challenges.delete(token)
        },
      })
      const text = `Issued by ${directory}\n${key}${cert}`
      const { certificate } = toIssued(text, name, now())
      putFile(fileOf(folder, name), text, PRIVATE)
      attempts.delete(name)
      nextMs.set(name, now() + WAIT_AFTER_MS)
      await use(one, certificate)
    } catch (error) {
      if (!stopping.signal.aborted) fail(one, error)
    }
    putFile(join(folder, 'attempts.json'), JSON.stringify(Object.fromEntries(attempts)), PRIVATE)
  }
  const fail = (one: Issued, error: unknown) => {
    const { name, certificate } = one
    const nowMs = now()
    const failures = (attempts.get(name)?.failures ?? 0) + 1
    const wantedMs = error instanceof AcmeError ? error.retryMs : 0
    const waitMs = Math.max(waitOf(failures), Math.min(wantedMs, DAY_MS))
    attempts.set(name, { directory, failures, lastMs: nowMs })
    nextMs.set(name, nowMs + waitMs)
    const why = messageOf(error)
    const next = `Next try at ${new Date(nowMs + waitMs).toISOString().slice(0, 16).replace('T', ' ')} UTC.`
    if (temporary.has(certificate)) one.problem = `${name} has no certificate yet. ${why} ${next} ${UNTRUSTED}`
    else if (isNearEnd(toState(certificate, null), nowMs))
      one.problem = `The certificate of ${name} can't be renewed. ${why} ${next}`
    log.warn('certificate_failed', 'certificate could not be ordered', { names: name, error: why, failures })
  }

  let ordering: Promise<void> = Promise.resolve()
  const order = (isForced: boolean) => {
    ordering = ordering
      .then(async () => {
        for (const one of issued) if (!stopping.signal.aborted && isDue(one, isForced)) await orderOne(one)
      })
      .catch((error: unknown) => log.error('internal_error', 'ordering failed', { error: String(error) }))
    return ordering
  }
  let timer: ReturnType<typeof setInterval> | undefined
  return {
    issued,
    challengeOf: (token) => challenges.get(token) ?? null,
    start(how) {
      use = how
      timer = setInterval(order, LOOK_MS, false)
      void order(false)
    },
    order: () => order(true),
    stop() {
      stopping.abort()
      clearInterval(timer)
    },
  }
}

const UNTRUSTED = 'Until then clients get a temporary one, which they reject.'

const waitOf = (failures: number) => WAITS_MS[Math.min(failures, WAITS_MS.length) - 1] ?? 0

const fileOf = (folder: string, name: string) => join(folder, `${name}.pem`)

interface Stored {
  certificate: Certificate
  /** URL of the authority. */
  directory: string
}

/** @throws BadCertificate */
function toIssued(text: string, name: string, nowMs: number): Stored {
  const [, directory = '', key = '', cert = ''] = /^Issued by (\S+)\n(.*?)(-----BEGIN CERT.*)$/s.exec(text) ?? []
  const what = `the issued certificate of ${name}`
  const certificate = toCertificate({ key, cert }, { certFile: what, keyFile: what }, nowMs)
  if (!certificate.names.includes(name)) throw new BadCertificate(`The issued certificate isn't for ${name}.`)
  return { certificate, directory }
}

/** Null without a usable certificate. */
function readStored(path: string, name: string, nowMs: number): Stored | null {
  try {
    return toIssued(readFileSync(path, 'utf8'), name, nowMs)
  } catch {
    return null
  }
}

function makeTemporary(name: string, nowMs: number): Certificate {
  const key = makeKey()
  const expiresMs = nowMs + TEMPORARY_MS
  return { cert: toSelfSigned(name, key, nowMs - DAY_MS, expiresMs), key, names: [name], fromMs: nowMs, expiresMs }
}

/** One account for all certificates, because authorities limit new accounts. */
function readAccountKey(folder: string): string {
  const path = join(folder, 'account.key')
  try {
    return readFileSync(path, 'utf8')
  } catch {
    putFile(path, makeKey(), { ...PRIVATE, isNew: true })
    return readFileSync(path, 'utf8')
  }
}

function readAttempts(path: string): Map<string, Attempts> {
  try {
    const all = Object.entries(asObject(JSON.parse(readFileSync(path, 'utf8'))) ?? {})
    return new Map(
      all.map(([name, value]) => {
        const { directory, failures, lastMs } = asObject(value) ?? {}
        return [name, { directory: asText(directory), failures: Number(failures) || 0, lastMs: Number(lastMs) || 0 }]
      }),
    )
  } catch {
    return new Map()
  }
}

function sleepUntil(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end)
      resolve()
    }, ms)
    signal.addEventListener('abort', end)
  })
}
