/**
 * Says in words why a host could not be reached, from the codes of sockets, resolvers and `fetch`, and whether it was for
 * want of something of our own. Never in their messages: those may quote what was sent.
 */
import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { codeOf } from '../domain/error.ts'

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was reset',
  ECONNABORTED: 'the connection was reset',
  EPIPE: 'the connection was reset',
  EHOSTUNREACH: 'there is no route to its host',
  EHOSTDOWN: 'its host is down',
  ENETUNREACH: 'there is no route to its network',
  ETIMEDOUT: 'the connection timed out',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is signed by nobody who is known here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is signed by nobody who is known here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is signed by nobody who is known here',
}

const BROKEN_OFF = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE'])

/** What a resolver says of a name that it cannot find, or not now. */
const RESOLVER = /^(ENOTFOUND|ENODATA|ENONAME|EAI_\w+|DNS_\w+|ESERVFAIL|EREFUSED|ETIMEOUT|EBADNAME)$/

/** Codes of a process that has run out of something: they say nothing of whom it wanted to reach. */
const OUR_OWN = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'EADDRNOTAVAIL'])

/** Names no host: clients may read it, and who runs this sees the address beside it. */
export function toNetworkWords(error: unknown): string {
  const code = nameOf(error)
  if (RESOLVER.test(code)) return 'its name does not resolve'
  return WORDS[code] ?? `it could not be reached (${code})`
}

/** Whether the other side had taken the connection before it broke. */
export const wasConnected = (error: unknown): boolean => BROKEN_OFF.has(nameOf(error))

/** Whether it failed for want of files, ports or memory of our own. Bun's fetch calls it a refusal when no file is left. */
export const isOurShortage = (error: unknown): boolean =>
  OUR_OWN.has(nameOf(error)) || (REFUSED.has(nameOf(error)) && isOutOfFiles())

const REFUSED = new Set(['ECONNREFUSED', 'ConnectionRefused'])

function isOutOfFiles(): boolean {
  try {
    closeSync(openSync(devNull, 'r'))
    return false
  } catch {
    return true
  }
}

/** Its code, or else what it calls itself. */
export const nameOf = (error: unknown): string => codeOf(error) || (error instanceof Error ? error.name : 'unknown')
