/**
 * Looks whether a TCP connection to an upstream comes about: the cheapest question there is, and the only one that tells
 * a dead host at once, since `fetch` shows no connect event (platform-notes 2.9). The connection is closed again unused.
 */

import { lookup } from 'node:dns/promises'
import { closeSync, openSync } from 'node:fs'
import { connect, isIP } from 'node:net'
import { devNull } from 'node:os'
import type { Environment, Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { isOurShortage, toNetworkWords } from '../upstreams/network-messages.ts'

/**
 * Resolves to `unknown` where it connects: that is all it knows; to `doubtful` where nothing came in time. Null where
 * nothing was learnt. Never throws.
 */
export type Look = (upstream: Upstream, signal: AbortSignal) => Promise<Readiness | null>

export interface LookOptions {
  /** Where the names of proxies are; `fetch` reads the process's own. */
  environment?: Environment
  /** How long a connection may take, its name's resolution included. */
  timeoutMs?: number
}

/** A name may have many addresses; this many are tried, at once. */
const MAX_ADDRESSES = 8
/** The time is counted in so many steps: a stall of our own loop counts as one of them, and not as silence. */
const STEPS = 10

export function createLook({ environment = process.env, timeoutMs = 2_000 }: LookOptions = {}): Look {
  return async ({ baseUrl }, signal) => {
    const place = baseUrl === null ? null : toPlace(baseUrl)
    // Behind a proxy the way to the upstream is the proxy's, and not open to us.
    if (place === null || hasProxy(place, environment)) return null
    const timeout = new AbortController()
    let steps = 0
    const timer = setInterval(() => ++steps === STEPS && timeout.abort(), timeoutMs / STEPS)
    timer.unref()
    const ended = AbortSignal.any([signal, timeout.signal])
    try {
      await Promise.race([reach(place, ended), untilAborted(ended)])
      return { state: 'unknown' }
    } catch (error) {
      if (signal.aborted) return null
      if (timeout.signal.aborted) return { state: 'doubtful', reason: `no connection within ${timeoutMs / 1000} s` }
      // Bun calls it a refusal when this process has no files left.
      if (isOurShortage(error) || isOutOfFiles()) return null
      return { state: 'down', reason: toNetworkWords(error) }
    } finally {
      clearInterval(timer)
      timeout.abort()
    }
  }
}

interface Place {
  protocol: string
  host: string
  port: number
}

function toPlace(baseUrl: string): Place | null {
  const url = URL.parse(baseUrl)
  if (url === null) return null
  const { protocol, hostname, port } = url
  // An IPv6 address stands in brackets there, and without them everywhere else.
  const host = hostname.replace(/^\[|\]$/g, '')
  return { protocol, host, port: Number(port) || (protocol === 'https:' ? 443 : 80) }
}

/**
 * Whether `fetch` goes to it by a proxy. Of what NO_PROXY may say it knows names and `*`; whatever else stands there counts
 * for nothing, since a look past a proxy would find down what is not.
 */
function hasProxy({ protocol, host, port }: Place, environment: Environment): boolean {
  const read = (name: string) => environment[name] || environment[name.toUpperCase()] || ''
  if (read(protocol === 'https:' ? 'https_proxy' : 'http_proxy') === '') return false
  const excepted = read('no_proxy')
    .toLowerCase()
    .split(/[\s,]+/)
  return !excepted.some((entry) => {
    const name = entry.replace(/^\*?\./, '')
    return name === '*' || [host, `${host}:${port}`].some((own) => own === name || own.endsWith(`.${name}`))
  })
}

/** Resolves as soon as one of the host's addresses has taken a connection. Throws the first address's failure. */
async function reach({ host, port }: Place, signal: AbortSignal): Promise<void> {
  const addresses = await addressesOf(host)
  const won = new AbortController()
  const over = AbortSignal.any([signal, won.signal])
  const tries = addresses.slice(0, MAX_ADDRESSES).map((address) => knock(address, port, over))
  try {
    await Promise.any(tries)
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error
  } finally {
    won.abort()
  }
}

async function addressesOf(host: string): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  // `fetch` tries both, whatever the hosts file says.
  if (host === 'localhost') return ['127.0.0.1', '::1']
  const found = await lookup(host, { all: true })
  return found.map(({ address }) => address)
}

/** One connection attempt. `node:net`, because a pending `Bun.connect` cannot be given up and would keep its socket. */
function knock(host: string, port: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const socket = connect({ host, port })
    socket.unref()
    const end = () => {
      socket.destroy()
      reject(signal.reason)
    }
    signal.addEventListener('abort', end, { once: true })
    socket.on('connect', () => {
      resolve()
      end()
    })
    socket.on('error', (error) => {
      signal.removeEventListener('abort', end)
      reject(error)
    })
  })
}

/** Rejects once the signal aborts: a resolver cannot be given up, only left. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

function isOutOfFiles(): boolean {
  try {
    closeSync(openSync(devNull, 'r'))
    return false
  } catch {
    return true
  }
}
