/** All that the description of the API says of its routes in words. A route without any does not compile. */
import { CATALOG } from './catalog.ts'
import { KEYS } from './keys.ts'
import { LEDGER } from './ledger.ts'
import { PASSKEYS } from './passkeys.ts'
import { PEOPLE } from './people.ts'
import type { RouteName, RouteWords, Words } from './route-words.ts'
import { SERVER } from './server.ts'

const EACH: Readonly<Record<RouteName, RouteWords>> = {
  ...PEOPLE,
  ...PASSKEYS,
  ...KEYS,
  ...CATALOG,
  ...LEDGER,
  ...SERVER,
}

/** By `METHOD /path`. */
export const WORDS: Words = EACH
