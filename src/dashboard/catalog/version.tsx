/** A version of the catalogue: what it changed, and the way back to it. */
import { useState } from 'preact/hooks'
import { may } from '../api/session.ts'
import { Button } from '../ui/button.tsx'
import { When } from '../ui/figure.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { FactsRoom, Unread } from '../ui/unread.tsx'
import { revert, useVersion } from './data.ts'
import { Plan } from './plan.tsx'
import { PlannedForm } from './planned-form.tsx'
import { toVersionText } from './words.ts'

export function VersionDrawer({ number, isNewest, onClose }: { number: number; isNewest: boolean; onClose(): void }) {
  const { data: version, problem, reload } = useVersion(number)
  const [isReverting, setReverting] = useState(false)
  return (
    <Overlay kind="drawer" title={`Version ${number}`} onClose={onClose}>
      <Unread of={version} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {version !== null && (
        <>
          <p>
            {toVersionText(version)}, <When ms={version.at_ms} />
          </p>
          {isReverting ? (
            <Revert
              number={number}
              onDone={() => {
                tell(`The catalogue is what it was in version ${number}.`)
                onClose()
              }}
              onCancel={() => setReverting(false)}
            />
          ) : (
            <>
              {version.changes === null ? (
                <p class="dim">What it changed is not known any more: the version before it is not kept.</p>
              ) : (
                <Plan of={{ ...version, changes: version.changes, adoptions: version.adoptions }} />
              )}
              {may('editor') && !isNewest && (
                <div class="form-foot">
                  <Button onClick={() => setReverting(true)}>Go back to it</Button>
                </div>
              )}
            </>
          )}
        </>
      )}
    </Overlay>
  )
}

const Revert = ({ number, onDone, onCancel }: { number: number; onDone(): void; onCancel(): void }) => (
  <PlannedForm
    initial={{}}
    send={(_, isPlan, planned) => revert(number, isPlan, planned?.revision)}
    fields={() => (
      <p>
        Upstreams, models, routes and aliases become what they were then. That makes a new version; what there is now
        stays one, too.
      </p>
    )}
    apply={`Go back to version ${number}`}
    onDone={onDone}
    onCancel={onCancel}
  />
)
