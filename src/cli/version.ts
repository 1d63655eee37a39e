/** The version: the build inlines it (`--define TOLLGATE_VERSION`), a checkout reads its own package.json. */
import { version as checkout } from '../../package.json'

declare const TOLLGATE_VERSION: string | undefined

/** Returns the version of this program, such as `0.1.0`. */
export function version(): string {
  return typeof TOLLGATE_VERSION === 'string' ? TOLLGATE_VERSION : checkout
}
