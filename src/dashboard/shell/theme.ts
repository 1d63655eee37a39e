/** Light or dark: from the system, or as chosen here. */
import { effect, signal } from '@preact/signals'

const THEMES = ['auto', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

const KEPT = 'tollgate-theme'

function read(): Theme {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEPT)) ?? 'auto'
  } catch {
    // Storage may be blocked.
    return 'auto'
  }
}

export const theme = signal<Theme>(read())

effect(() => {
  const { value } = theme
  if (value === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = value
  try {
    if (value === 'auto') localStorage.removeItem(KEPT)
    else localStorage.setItem(KEPT, value)
  } catch {}
})

export function switchTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'auto'
}

const system = matchMedia('(prefers-color-scheme: dark)')
export const isSystemDark = signal(system.matches)
system.addEventListener('change', ({ matches }) => {
  isSystemDark.value = matches
})

/** A CSS token's computed color, for canvas. */
export function colorOf(token: `--${string}`): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${token})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
