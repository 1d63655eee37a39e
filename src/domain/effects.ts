/** Effects of a planned removal: what is lost, and for whom. */

/** Some of the names, and how many there are. */
export interface Named {
  total: number
  names: string[]
}

/** Of a model or upstream that is removed or disabled. */
export interface Effect {
  /** Keys and teams that name the model exactly, not by a pattern. */
  keys: Named
  teams: Named
  /** Remaining aliases of the model. */
  aliases: Named
  /** Models left without a route. */
  models: Named
  /** In the last 7 days; null if unknown. */
  requests: number | null
}

/** Such as `2 keys name it (ann, ci), 1,204 requests in 7 days`. */
export function toEffectText({ keys, teams, aliases, models, requests }: Effect): string {
  const parts = [
    toText(keys, 'key names it', 'keys name it'),
    toText(teams, 'team names it', 'teams name it'),
    toText(aliases, 'alias points to it', 'aliases point to it'),
    toText(models, 'model loses its last route', 'models lose their last route'),
    ...(requests === null ? [] : [`${COUNT.format(requests)} ${requests === 1 ? 'request' : 'requests'} in 7 days`]),
  ]
  return parts.filter(Boolean).join(', ')
}

const toText = ({ total, names }: Named, one: string, more: string) => {
  if (total === 0) return ''
  const rest = total - names.length
  return `${COUNT.format(total)} ${total === 1 ? one : more} (${names.join(', ')}${rest > 0 ? `, and ${COUNT.format(rest)} more` : ''})`
}

const COUNT = new Intl.NumberFormat('en-US')
