/** All that the description of the API says of its routes in words. */
import { CATALOG } from './catalog.ts'
import { KEYS } from './keys.ts'
import { LEDGER } from './ledger.ts'
import { PEOPLE } from './people.ts'
import type { Words } from './route-words.ts'
import { SERVER } from './server.ts'

export const WORDS: Words = { ...PEOPLE, ...KEYS, ...CATALOG, ...LEDGER, ...SERVER }
