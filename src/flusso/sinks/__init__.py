"""Write: where documents land. One contract (`base`), one module or folder for each kind of sink."""
