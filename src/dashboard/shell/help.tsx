/** The list of what the keyboard does. */
import { Overlay } from '../ui/overlay.tsx'
import { isHelpOpen } from './keyboard.ts'
import { maySee, PAGES } from './pages.ts'

export function Help() {
  if (!isHelpOpen.value) return null
  const offered = PAGES.flatMap((page) => (page.offered && maySee(page) ? [page.offered] : []))
  const lines: [keys: string[], what: string][] = [
    [['/'], 'Search on this page'],
    [['n'], 'Make something new'],
    ...offered.map(({ letter, label }): [string[], string] => [['g', letter], `Go to ${label}`]),
    [['↑', '↓'], 'Go through a list'],
    [['Esc'], 'Close what is open'],
    [['?'], 'This list'],
  ]
  return (
    <Overlay
      title="Keyboard"
      onClose={() => {
        isHelpOpen.value = false
      }}
    >
      <dl class="shortcuts">
        {lines.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Overlay>
  )
}
