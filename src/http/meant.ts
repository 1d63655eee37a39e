/** What a wrong URL was meant to be: one that is served, without `/v1`, with it twice, or behind another gateway's prefix. Pure. */
import { toPattern } from './instance.ts'

/** Longer paths are nobody's slip. */
const LONGEST = 400
const MOST_SEGMENTS = 12

/**
 * Finds the served path in whose words a path ends, in letters of either case.
 * @param routes paths that are served, which may have `:name` segments and end in `*`
 */
export function findMeant(path: string, routes: readonly string[]): { path: string; route: string } | null {
  const segments = path.split('/').filter((segment) => segment !== '')
  if (path.length > LONGEST || segments.length > MOST_SEGMENTS) return null
  for (let from = 0; from < segments.length; from++) {
    const rest = `/${segments.slice(from).join('/')}`
    const lower = rest.toLowerCase()
    for (const route of routes) {
      const star = toPattern(route).exec(lower) ?? toPattern(route).exec(`/v1${lower}`)
      // A model's name is as it was written.
      if (star) return { path: route.replace('*', () => rest.slice(rest.length - (star[1] ?? '').length)), route }
    }
  }
  return null
}
