/** The current certificates: read at the start, and again when their files change. */
import type { ServeConfig } from '../../config.ts'
import type { CertificateState } from '../../documents/server.ts'
import { messageOf } from '../../domain/error.ts'
import { toBadConfig } from '../../domain/service-error.ts'
import { DAY_MS, toDay } from '../../domain/time.ts'
import type { Log } from '../../log.ts'
import { isNearEnd } from '../findings.ts'
import type { Listener, ServedCertificates } from '../listener.ts'
import { listenAt } from '../network.ts'
import {
  BadCertificate,
  type Certificate,
  type Pair,
  readPair,
  toCertificate,
  toOrigin,
  toOrigins,
  toServed,
  toState,
} from './certificates.ts'
import { startRedirect } from './redirect.ts'

const LOOK_MS = 5_000

type TlsConfig = Pick<
  ServeConfig,
  'tlsCerts' | 'tlsKeys' | 'tlsDomains' | 'acmeDirectory' | 'httpRedirect' | 'host' | 'publicUrls'
>

interface TlsDeps {
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** Folder of issued certificates. */
  dataFolder: string
}

interface Held {
  certificate: Certificate
  /** Why no newer certificate is in use; null without a problem. */
  problem: string | null
}

interface Source extends Held {
  pair: Pair
  /** Content found by the last check. */
  found: string | null
  tried: string | null
}

export interface Tls {
  /** For `createListener`. */
  served(): ServedCertificates
  states(): CertificateState[]
  /** Watches the certificates' files, and redirects plain HTTP. Returns the origin for clients. */
  start(on: Started): Promise<string>
  /** Reads the files now, and starts orders that are due. Never throws. */
  reread(): Promise<void>
  stop(): void
}

interface Started {
  listener: Pick<Listener, 'port' | 'origin' | 'replace'>
  /** See `ListenPlace`. */
  isShared?(port: number): boolean
  /** Configured URLs; without any, those of the certificates' names. Gets this machine's too. */
  publicUrls: string[]
}

/** @throws ServiceError with every problem. */
export async function openTls(config: TlsConfig, { log, now, dataFolder }: TlsDeps): Promise<Tls> {
  const { tlsCerts, tlsKeys, tlsDomains: domains, acmeDirectory: directory } = config
  const problems: string[] = []
  const sources: Source[] = []
  for (const [at, certFile] of tlsCerts.entries()) {
    const pair = { certFile, keyFile: tlsKeys[at] ?? '' }
    try {
      const certificate = toCertificate(await readPair(pair), pair, now())
      sources.push({ pair, certificate, problem: null, found: null, tried: null })
    } catch (error) {
      problems.push(messageOf(error))
    }
  }
  if (problems.length > 0) throw toBadConfig(problems)

  const issuer =
    domains.length > 0 ? (await import('./acme.ts')).createIssuer({ domains, directory, dataFolder, now, log }) : null
  const held: Held[] = [...sources, ...(issuer?.issued ?? [])]
  const all = () => held.map(({ certificate }) => certificate)
  let using: Promise<void> = Promise.resolve()
  let apply = async (_: readonly Certificate[]) => {}
  let onApplied = () => {}
  let warnedMs = Number.NEGATIVE_INFINITY

  /** The pair's new certificate, if usable; otherwise records the reason. */
  const findNew = async (source: Source, isForced: boolean): Promise<Certificate | null> => {
    const { pair, certificate } = source
    const text = await readPair(pair).catch(messageOf)
    const found = typeof text === 'string' ? text : text.cert + text.key
    if (found === certificate.cert + certificate.key) {
      source.found = source.tried = source.problem = null
      return null
    }
    // The two files are rarely written at once, so two checks must find the same content.
    const isWritten = source.found === found
    source.found = found
    if (!isForced && (!isWritten || source.tried === found)) return null
    source.tried = found
    try {
      if (typeof text === 'string') throw new BadCertificate(text)
      return toCertificate(text, pair, now())
    } catch (error) {
      reject(source, error)
      return null
    }
  }
  const reject = (source: Source, error: unknown) => {
    source.problem = `${messageOf(error)} The previous certificate stays in use.`
    log.error('certificate_rejected', 'changed certificate is not used; the previous one stays', {
      ...{ file: source.pair.certFile, error: messageOf(error) },
    })
  }

  const look = async (isForced: boolean) => {
    const found = await Promise.all(
      sources.map(async (source) => ({ source, certificate: await findNew(source, isForced) })),
    )
    const changed = new Map(found.flatMap(({ source, certificate }) => (certificate ? [[source, certificate]] : [])))
    if (changed.size > 0)
      await use(changed).catch((error: unknown) => {
        for (const source of changed.keys()) reject(source, error)
      })
    warn()
  }
  /** One call at a time, because each serves all certificates. */
  const use = (changed: ReadonlyMap<Held, Certificate>): Promise<void> => {
    const done = using.then(async () => {
      await apply(held.map((one) => changed.get(one) ?? one.certificate))
      for (const [one, certificate] of changed) {
        Object.assign(one, { certificate, problem: null })
        const fields = { names: certificate.names.join(' '), expires: toDay(certificate.expiresMs) }
        log.info('certificate_applied', 'new certificate in use', fields)
      }
      onApplied()
    })
    using = done.catch(() => {})
    return done
  }
  const warn = () => {
    const nowMs = now()
    if (nowMs < warnedMs + DAY_MS) return
    for (const state of states()) {
      if (!isNearEnd(state, nowMs)) continue
      warnedMs = nowMs
      const what = state.expires_ms <= nowMs ? 'certificate has expired' : 'certificate expires soon'
      log.warn('certificate_expiring', what, { names: state.names.join(' '), expires: toDay(state.expires_ms) })
    }
  }
  const states = () => held.map(({ certificate, problem }) => toState(certificate, problem))

  let looking: Promise<void> = Promise.resolve()
  const reread = (isForced: boolean) => {
    looking = looking.then(() => look(isForced))
    return looking
  }
  let stop = () => {}
  return {
    served: () => toServed(all()),
    states,
    async start({ listener, publicUrls, isShared = () => false }) {
      // The authority reads its challenges here.
      const at = config.httpRedirect ?? (issuer && { host: null, port: 80 })
      const nameUrls = () => {
        const named = config.publicUrls.length > 0 ? config.publicUrls : toOrigins(all(), listener.port)
        const own = LOOPBACK.map((host) => toOrigin(host, listener.port))
        publicUrls.splice(0, publicUrls.length, ...named, ...own)
        return named[0] ?? listener.origin
      }
      const origin = nameUrls()
      const redirect =
        at &&
        (await listenAt({ hostname: at.host ?? config.host, port: at.port, isShared: isShared(at.port) }, (place) =>
          startRedirect({ ...place, securePort: listener.port, publicUrls, now, challengeOf: issuer?.challengeOf }),
        ))
      apply = (certificates) => listener.replace(toServed(certificates))
      onApplied = nameUrls
      warn()
      const timer = setInterval(reread, LOOK_MS, false)
      issuer?.start((one, certificate) => use(new Map([[one, certificate]])))
      stop = () => {
        clearInterval(timer)
        issuer?.stop()
        redirect?.stop()
      }
      return origin
    },
    async reread() {
      void issuer?.order()
      await reread(true)
    },
    stop: () => stop(),
  }
}

/** Local origins, for which the dashboard needs no public URL. */
const LOOPBACK = ['127.0.0.1', 'localhost', '::1']
